// Package pythontest finds a Python for tests. It does not know what they run with it.
package pythontest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Interpreter returns a Python that has some modules: $PYTHON, the first one of the path, or the system's. Without one the test is skipped,
// but fails if CI has installed them (make python).
func Interpreter(t testing.TB, modules ...string) string {
	t.Helper()
	said := ""
	for _, name := range []string{os.Getenv("PYTHON"), "python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "-c", "import "+strings.Join(append(modules, "sys"), ", ")).CombinedOutput()
		if err == nil {
			return path
		}
		said += string(out)
	}
	const missing = "no Python with %s: make python installs it\n%s"
	if os.Getenv("CI") != "" {
		t.Fatalf(missing, strings.Join(modules, ", "), said)
	}
	t.Skipf(missing, strings.Join(modules, ", "), said)
	return ""
}
