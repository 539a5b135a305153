package jobinit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
)

// A script and its folder become a job that loads, with setup, state and progress derived from them.
func TestProgramOfAScript(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		path  string
		want  Program
		err   string
	}{
		"steps in a loop, checkpoints in a folder": {
			files: map[string]string{"train.py": "import torch\nfor step in range(500):\n    print(f\"step {step}: loss {loss:.3f}\")\n    torch.save(model, \"checkpoints/model.pt\")\n",
				"requirements.txt": "torch\n", "prepare.py": ""},
			want: Program{Script: "train.py", Setup: "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt", Run: ".venv/bin/python train.py",
				State: "checkpoints", Line: `(?i)step\W*(\d+)`, Of: "500"},
		},
		"epochs of a parser, output_dir": {
			files: map[string]string{"run.py": "p.add_argument('--epochs', type=int, default=3)\np.add_argument('--output_dir', default='./out/a')\nlogging.info('Epoch: %d', e)\n"},
			path:  "run.py",
			want:  Program{Script: "run.py", Run: "python3 run.py", State: "out", Line: `(?i)epoch\W*(\d+)`, Of: "3"},
		},
		"our package": {
			files: map[string]string{"only.py": "import tierml\nwith tierml.keep(x) as kept:\n    for step in kept.steps(9):\n        tierml.progress(step)\n        print(f'step {step}')\n"},
			want:  Program{Script: "only.py", Run: "python3 only.py", State: "ckpt", Calls: true},
		},
		"a shell script with a blank": {
			files: map[string]string{"my job.sh": "mkdir -p ckpt\necho \"round $i\"\n"}, path: "my job.sh",
			want: Program{Script: "my job.sh", Run: "bash 'my job.sh'", State: "ckpt", Line: `(?i)round\W*(\d+)`},
		},
		"nothing to be told":  {files: map[string]string{"main.py": "print('hello')\n"}, want: Program{Script: "main.py", Run: "python3 main.py"}},
		"several scripts":     {files: map[string]string{"a.py": "", "b.py": ""}, err: "several scripts: name one of a.py, b.py"},
		"no script":           {files: map[string]string{"a.txt": ""}, err: "has no script"},
		"neither of the two":  {files: map[string]string{"a.txt": ""}, path: "a.txt", err: "is neither a script"},
		"nothing of the name": {path: "none.py", err: "there is no script or folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Inspect(filepath.Join(dir, c.path))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if c.want.Folder = dir; err != nil || got != c.want {
				t.Errorf("found\n%+v, %v; want\n%+v", got, err, c.want)
			}
			w := given()
			w.Data, w.Script = "", filepath.Join(dir, c.path)
			d, _ := dialogue("")
			if err := d.Fill(&w); err != nil {
				t.Fatal(err)
			}
			job := load(t, w)
			if job.Run != c.want.Run || job.Setup != c.want.Setup || job.State.Dir != c.want.State || job.Progress.Line != c.want.Line || job.Workdir != dir || job.Hours != 1 || job.Local.Speed != 60 ||
				job.Resources.Count.String() != "1" {
				t.Errorf("%+v", job.UserProgram)
			}
		})
	}
}

// A script is also a valid answer to the first question; a program's job is not asked whether it trains without machines.
func TestScriptAsAnAnswer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tune.py"), []byte("print('x')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, out := dialogue(dir + "\n\n2.5\nnone\nlocal\n" + strings.Repeat("\n", 20))
	w := given()
	w.Data = ""
	if err := d.Fill(&w); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if w.Name != "tune" || w.Program == nil || w.Program.Hours != 2.5 || w.Cloud != config.CloudLocal || !strings.Contains(out.String(), `"none" does not exist`) {
		t.Errorf("%+v\n%s", w, out)
	}
}
