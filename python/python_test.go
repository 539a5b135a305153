package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tierml/tierml/python/pythontest"
)

func unittest(t *testing.T, interpreter string, names ...string) {
	t.Helper()
	cmd := exec.Command(interpreter, append([]string{"-m", "unittest", "-v"}, names...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestPackage(t *testing.T) {
	unittest(t, pythontest.Interpreter(t, "numpy"), "tests.test_tierml", "tests.test_batches", "tests.test_diloco")
}

// The same with torch: a transformer is the same, byte for byte; ranks agree on their snapshots.
func TestTorch(t *testing.T) {
	if os.Getenv("TIERML_TORCH") == "" {
		t.Skip("importing torch takes seconds: make test-programs does it")
	}
	unittest(t, pythontest.Interpreter(t, "numpy", "torch"), "tests.test_torch")
}

// Machines get the package, and can import it.
func TestWrite(t *testing.T) {
	interpreter := pythontest.Interpreter(t)
	dir := filepath.Join(t.TempDir(), "lib")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(interpreter, "-c", "import tierml, sys; tierml.progress(1); print(tierml.__file__, 'numpy' in sys.modules)")
	cmd.Env, cmd.Dir = append(os.Environ(), "PYTHONPATH="+dir), t.TempDir()
	out, err := cmd.CombinedOutput()
	if want := filepath.Join(dir, "tierml", "__init__.py") + " False\n"; err != nil || string(out) != want {
		t.Errorf("%q, want %q: %v", out, want, err)
	}
}
