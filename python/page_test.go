package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/docstest"
	"github.com/tierml/tierml/python/pythontest"
)

// site is where a program runs as on a machine.
type site struct {
	dir string
	env []string
}

func newSite(t *testing.T, paths ...string) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		paths[i] = filepath.Join(here, p)
	}
	s.env = append(os.Environ(), "PYTHONPATH="+strings.Join(append(paths, here), string(os.PathListSeparator)), "TIERML_RUN=page", "OMP_NUM_THREADS=1")
	for variable, name := range map[string]string{"STATE": "state", "NOTICE_FILE": "notice", "PROGRESS_FILE": "progress", "SAVE_FILE": "save", "KEPT_FILE": "kept"} {
		s.env = append(s.env, "TIERML_"+variable+"="+filepath.Join(s.dir, name))
	}
	if err := os.Mkdir(filepath.Join(s.dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) start(t *testing.T, interpreter, code string) (cmd *exec.Cmd, out *strings.Builder) {
	t.Helper()
	cmd = exec.Command(interpreter, "-c", code)
	cmd.Env, cmd.Dir, out = s.env, s.dir, &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// notice warns the program, once it is at a step.
func (s *site) notice(t *testing.T, step string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(s.dir, "progress"))
		if fields := strings.Fields(string(text)); len(fields) > 0 && (len(fields[0]) > len(step) || len(fields[0]) == len(step) && fields[0] >= step) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("no step %s", step)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "new"), []byte(`{"kind":"eviction","seconds":30}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "new"), filepath.Join(s.dir, "notice")); err != nil {
		t.Fatal(err)
	}
}

func page(t *testing.T, test string) []docstest.Block {
	t.Helper()
	pages, err := docstest.ExecutedBy(os.DirFS(".."), test)
	if err != nil || len(pages["python/README.md"]) == 0 {
		t.Fatalf("%v: no blocks", err)
	}
	return pages["python/README.md"]
}

// The page's programs end with their result, and after a notice with the same one.
func TestPythonPage(t *testing.T) {
	interpreter := pythontest.Interpreter(t, "numpy")
	for _, b := range page(t, "TestPythonPage") {
		s := newSite(t, "tests/stub")
		before, after := "", ""
		if strings.Contains(b.Text, "transformers") {
			before = "import tierml\nfrom transformers import TrainingArguments\nmodel, data = {'weight': 0.0}, [i / 7 for i in range(60)]\nargs = TrainingArguments(tierml.state(), 60, 20)\n"
			after = "\nprint(model)"
		}
		code := before + b.Text + after
		if !strings.Contains(code, "keep") && before == "" { // the one that waits for a notice
			cmd, out := s.start(t, interpreter, strings.Replace(code, "loss =", "import time; time.sleep(0.001); loss =", 1))
			s.notice(t, "5")
			if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), " seconds left after step ") {
				t.Errorf("%s: %v\n%s", b, err, out)
			}
			continue
		}
		whole, want := s.start(t, interpreter, code)
		if err := whole.Wait(); err != nil || want.Len() == 0 {
			t.Fatalf("%s: %v\n%s", b, err, want)
		}
		s = newSite(t, "tests/stub")
		slow := strings.Replace(code, "losses.append", "import time; time.sleep(0.01); losses.append", 1)
		cmd, _ := s.start(t, interpreter, slow)
		s.notice(t, "9")
		if err := cmd.Wait(); err == nil || err.Error() != "exit status 143" {
			t.Errorf("%s: after a notice %v", b, err)
		}
		if err := os.Remove(filepath.Join(s.dir, "notice")); err != nil {
			t.Fatal(err)
		}
		if names, err := os.ReadDir(filepath.Join(s.dir, "state")); err != nil || len(names) != 1 {
			t.Errorf("%s: the state is %v %v", b, names, err)
		}
		again, got := s.start(t, interpreter, code)
		if err := again.Wait(); err != nil || got.String() != want.String() {
			t.Errorf("%s: %v: %q, want %q", b, err, got, want)
		}
	}
}

// The page's script is a plain loop where TierML is not.
func TestReplicasPage(t *testing.T) {
	if os.Getenv("TIERML_TORCH") == "" {
		t.Skip("importing torch takes seconds: make test-programs does it")
	}
	interpreter := pythontest.Interpreter(t, "numpy", "torch")
	pages, err := docstest.ExecutedBy(os.DirFS(".."), "TestReplicasPage")
	if err != nil || len(pages["docs/python.md"]) == 0 {
		t.Fatalf("%v: no blocks", err)
	}
	for _, b := range pages["docs/python.md"] {
		cmd, out := newSite(t).start(t, interpreter, b.Text+"\nassert loss < 1\nprint(run.step, run.round)")
		if err := cmd.Wait(); err != nil || out.String() != "399 8\n" {
			t.Errorf("%s: %v\n%s", b, err, out)
		}
	}
}

func TestPythonPageWithTorch(t *testing.T) {
	if os.Getenv("TIERML_TORCH") == "" {
		t.Skip("importing torch takes seconds: make test-programs does it")
	}
	interpreter := pythontest.Interpreter(t, "numpy", "torch")
	for _, b := range page(t, "TestPythonPageWithTorch") {
		cmd, out := newSite(t).start(t, interpreter, b.Text+"\nprint(scheduler.last_epoch)")
		if err := cmd.Wait(); err != nil || out.String() != "100\n" {
			t.Errorf("%s: %v\n%s", b, err, out)
		}
	}
}
