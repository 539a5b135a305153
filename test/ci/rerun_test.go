// Package ci tests the scripts of .ci that decide whether a change passes.
package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs .ci/rerun in its own module with a test file, and returns its output, the tests that it called flaky, and whether it passed.
func script(t *testing.T, code, flaky string) (out, listed string, passed bool) {
	t.Helper()
	rerun, err := filepath.Abs("../../.ci/rerun")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := filepath.Join(dir, "flaky")
	for name, text := range map[string]string{"go.mod": "module example.org/x\n\ngo 1.26\n", "x_test.go": "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"testing/synctest\"\n)\n\nvar _ = synctest.Wait\n\n" + code +
		"\n// once fails the first time.\nfunc once(t *testing.T) {\n\tif os.Mkdir(t.Name(), 0o700) == nil {\n\t\tt.Error(\"the first time\")\n\t}\n}\n", "flaky": flaky} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(rerun, "-timeout", "1m", "./...")
	command.Dir = dir
	command.Env = append(os.Environ(), "FLAKY="+list, "GOFLAGS=-mod=mod", "GOWORK=off")
	said, err := command.CombinedOutput()
	text, _ := os.ReadFile(list)
	return string(said), string(text), err == nil
}

func TestFailedTestsRunAgainOnce(t *testing.T) {
	for name, c := range map[string]struct {
		code, flaky string
		passed      bool
		listed      string
	}{
		"passes":          {"func TestA(t *testing.T) {}\n", "", true, ""},
		"fails once":      {"func TestA(t *testing.T) { once(t) }\nfunc TestB(t *testing.T) {}\n", "", true, "example.org/x TestA\n"},
		"fails twice":     {"func TestA(t *testing.T) { t.Error(1) }\n", "", false, ""},
		"three fail once": {"func TestA(t *testing.T) { once(t) }\nfunc TestB(t *testing.T) { once(t) }\nfunc TestC(t *testing.T) { once(t) }\n", "", true, "example.org/x TestA\nexample.org/x TestB\nexample.org/x TestC\n"},
		"four fail":       {"func TestA(t *testing.T) { once(t) }\nfunc TestB(t *testing.T) { once(t) }\nfunc TestC(t *testing.T) { once(t) }\nfunc TestD(t *testing.T) { once(t) }\n", "", false, ""},
		"three before":    {"func TestA(t *testing.T) { once(t) }\n", "a A\na B\na C\n", false, "a A\na B\na C\n"},
		"subtest":         {"func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { if _, err := os.Stat(\"ran\"); err != nil { _ = os.Mkdir(\"ran\", 0o700); t.Error(1) } }) }\n", "", true, "example.org/x TestA\n"},
		"in a bubble":     {"func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { if os.Mkdir(t.Name(), 0o700) == nil { go func() { select {} }(); t.Fatal(1) } }) }\nfunc TestB(t *testing.T) {}\n", "", true, "example.org/x Test.*\n"},
		"panics":          {"func TestA(t *testing.T) { panic(1) }\n", "", false, ""},
		"does not build":  {"func TestA(t *testing.T) { nothing() }\n", "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, listed, passed := script(t, c.code, c.flaky)
			if passed != c.passed || listed != c.listed {
				t.Errorf("passed %v, flaky %q; want %v, %q\n%s", passed, listed, c.passed, c.listed, out)
			}
			if again := strings.Count(out, "it runs again"); !c.passed && again > 1 {
				t.Errorf("%d tests ran again\n%s", again, out)
			}
		})
	}
}
