package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/docstest"
	"github.com/tierml/tierml/python/pythontest"
)

// site is an environment in which a program runs as on a machine.
type site struct {
	dir string
	env []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "PYTHONPATH="+here, "TIERML_RUN=page", "OMP_NUM_THREADS=1")
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

// reached waits until the program is at a step.
func (s *site) reached(t *testing.T, step string) {
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
}

// notice warns the program, once it has reached a step.
func (s *site) notice(t *testing.T, step string) {
	t.Helper()
	s.reached(t, step)
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
		if !strings.Contains(b.Text, "keep") { // the one that waits for a notice
			s := newSite(t)
			cmd, out := s.start(t, interpreter, strings.Replace(b.Text, "loss =", "import time; time.sleep(0.001); loss =", 1))
			s.notice(t, "5")
			if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), " seconds left after step ") {
				t.Errorf("%s: %v\n%s", b, err, out)
			}
			continue
		}
		throughNotice(t, interpreter, b.Text, strings.Replace(b.Text, "losses.append", "import time; time.sleep(0.01); losses.append", 1))
	}
}

// throughNotice runs a program to its end, and again, slowed down, with a notice after some steps. Both end with the same result.
func throughNotice(t *testing.T, interpreter, code, slow string) {
	t.Helper()
	last := func(out *strings.Builder) string { // libraries print more
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return lines[len(lines)-1]
	}
	whole, want := newSite(t).start(t, interpreter, code)
	if err := whole.Wait(); err != nil || want.Len() == 0 {
		t.Fatalf("%s: %v\n%s", code, err, want)
	}
	s := newSite(t)
	cmd, out := s.start(t, interpreter, slow)
	s.reached(t, "5")
	_ = cmd.Process.Signal(syscall.SIGTERM) // a signal that comes before its notice ends nothing
	s.notice(t, "9")
	_ = cmd.Process.Signal(syscall.SIGTERM) // as the agent does; it may have ended
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 143" {
		t.Errorf("%s: after a notice %v\n%s", code, err, out)
	}
	if err := os.Remove(filepath.Join(s.dir, "notice")); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(filepath.Join(s.dir, "state")); err != nil || len(names) != 1 {
		t.Errorf("%s: the state is %v %v", code, names, err)
	}
	again, got := s.start(t, interpreter, code)
	if err := again.Wait(); err != nil || last(got) != last(want) {
		t.Errorf("%s: %v: %q, want %q", code, err, got, want)
	}
}

// beforeTrainers defines what the page's trainers assume. A step takes SLOW seconds.
const beforeTrainers = `
import hashlib, os, time
import tierml, torch
torch.manual_seed(1)
torch.set_num_threads(1)
class Model(BASE):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x, labels):
        time.sleep(float(os.environ.get("SLOW", "0")))
        return torch.nn.functional.dropout(self.layer(x) - labels).square().mean(), x
    def _register_sharded_tensor_state_dict_hooks_if_available(self):
        pass  # torch 1.13 cannot import its shards in Python 3.11
    def training_step(self, batch, index):
        return self(**batch)[0]
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
model = Model()
optimizer = torch.optim.AdamW(model.parameters())
data = [{"x": torch.full((4,), i / 60), "labels": torch.ones(4)} for i in range(60)]
`

// The page's trainers, with the real libraries.
func TestTrainersOnThePage(t *testing.T) {
	if os.Getenv("TIERML_TORCH") == "" {
		t.Skip("importing torch takes seconds: make test-programs does it")
	}
	interpreter := pythontest.Interpreter(t, "torch", "transformers", "lightning", "accelerate")
	for _, b := range page(t, "TestTrainersOnThePage") {
		before, after := strings.Replace(beforeTrainers, "BASE", "torch.nn.Module", 1), "print(hashlib.sha256(b''.join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())"
		switch {
		case strings.Contains(b.Text, "transformers"):
			before += "from transformers import TrainingArguments\nargs = TrainingArguments(tierml.state(), max_steps=60, save_steps=20, save_total_limit=1, per_device_train_batch_size=1, report_to='none', use_cpu=True, disable_tqdm=True)\n"
		case strings.Contains(b.Text, "lightning"):
			before = "import lightning\n" + strings.Replace(beforeTrainers, "BASE", "lightning.LightningModule", 1)
			before += "data, torch.nn.functional.dropout = torch.utils.data.DataLoader(data[:1] * 60), lambda x: x\n" // Lightning restarts an epoch's data, and does not save random generators
		}
		code := before + b.Text + "\n" + after
		throughNotice(t, interpreter, code, "import os; os.environ['SLOW'] = '0.05'\n"+code)
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

// Without TierML the page's script is a plain loop.
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
