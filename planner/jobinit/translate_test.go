package jobinit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
)

// translated returns the job translated from another tool's task, as config reads it, and the notes.
func translated(t *testing.T, text string) (job *config.Job, notes string) {
	t.Helper()
	dir := t.TempDir()
	made, err := Translate(filepath.Join(dir, "task.yaml"), []byte(text), dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(path, made.Text, 0o600); err != nil {
		t.Fatal(err)
	}
	if job, err = config.Load(path); err != nil {
		t.Fatalf("%v\n%s", err, made.Text)
	}
	return job, strings.Join(made.Notes, "\n")
}

func TestTranslateSkyPilot(t *testing.T) {
	t.Setenv("HF_TOKEN", "x")
	t.Setenv("WANDB_API_KEY", "x")
	job, notes := translated(t, `
name: Fine Tune
resources: {cpus: 4+, memory: 16, use_spot: true, infra: aws/us-east-1, disk_size: 100, ports: 8080, job_recovery: {max_restarts_on_errors: 3}}
num_nodes: 2
workdir: .
envs: {EPOCHS: 3, HF_TOKEN: "${HF_TOKEN}"}
secrets: {WANDB_API_KEY: null}
file_mounts: {/data: s3://bucket/data}
setup: pip install torch
run: torchrun --nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK train.py
`)
	if job.Name != "Fine-Tune" || job.Resources.Count.Most != 2 || job.Envs["EPOCHS"] != "3" || len(job.Secrets) != 2 || job.Retries != 3 || job.Ports[0] != 8080 {
		t.Errorf("%+v", job)
	}
	if m := job.Resources.AnyOf[0]; m.CPUs.String() != "4+" || m.Memory.String() != "16GB" {
		t.Errorf("%+v", m)
	}
	for _, part := range []string{"resources.infra: aws/us-east-1", "resources.disk_size: has no counterpart", "file_mounts: put the files into workdir", "state: "} {
		if !strings.Contains(notes, part) {
			t.Errorf("%q is not noted:\n%s", part, notes)
		}
	}
	if strings.Contains(notes, "use_spot") {
		t.Error(notes)
	}
}

// Alternatives that each name an image, and notes, always give the same file: each field occurs once.
func TestTranslateAlternatives(t *testing.T) {
	text := "run: x\nsecrets: {B: b, A: a}\nresources: {any_of: [{cpus: 2, image_id: 'docker:one'}, {cpus: 4, image_id: 'docker:two'}]}"
	t.Setenv("A", "x")
	t.Setenv("B", "x")
	job, notes := translated(t, text)
	if job.Image != "one" || !strings.Contains(notes, "image: a job has one; two was left out") {
		t.Errorf("%q\n%s", job.Image, notes)
	}
	for range 10 {
		if _, again := translated(t, text); again != notes {
			t.Fatalf("%s\n%s", notes, again)
		}
	}
}

// A job names a machine's type or its needs; other tools' files name both.
func TestTranslateTypes(t *testing.T) {
	for text, notes := range map[string][]string{
		"run: x\nresources: {instance_type: c3.xlarge, cpus: 4+, accelerators: 'V100:1'}":                                                   {"cpus: 4+", "gpu: V100:1"},
		"run: x\nresources: {instance_type: c3.xlarge, job_recovery: {strategy: FAILOVER, max_restarts_on_errors: 1}, spot_recovery: none}": {"job_recovery.strategy: FAILOVER", "spot_recovery: none"},
		"type: task\ncommands: [x]\ninstance_types: [c3.xlarge]\nresources: {gpu: {name: [L4, T4]}, memory: 8GB}":                           {"gpu: L4:1", "gpu: T4:1", "memory: 8GB"},
	} {
		job, said := translated(t, text)
		if of := job.Resources.AnyOf; len(of) != 1 || of[0].Type != "c3.xlarge" {
			t.Errorf("%s: %+v", text, of)
		}
		for _, part := range notes {
			if !strings.Contains(said, "resources."+part) {
				t.Errorf("%s: %q is not noted:\n%s", text, part, said)
			}
		}
	}
}

// A translated script sees SkyPilot's variables, and does not end at the first failure or unset variable.
func TestTranslatedScriptRuns(t *testing.T) {
	job, _ := translated(t, `
run: |
  echo "rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES at $(echo "$SKYPILOT_NODE_IPS" | head -n1) $UNSET"
  false
  echo end
`)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", job.Run)
	cmd.Env = []string{"TIERML_RANK=1", "TIERML_RANKS=2", "MASTER_ADDR=10.0.0.1"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "rank 1 of 2 at 10.0.0.1 \nend\n" {
		t.Errorf("%s%v", out, err)
	}
}

func TestTranslateAccelerators(t *testing.T) {
	for text, want := range map[string]string{
		"{accelerators: V100}":                           "V100",
		"{accelerators: 'A100-80GB:8'}":                  "A100-80GB:8",
		"{accelerators: {L4: 1, A10G: 2}}":               "A10G:2 L4:1",
		"{accelerators: {L4:1, A10G:2}}":                 "A10G:2 L4:1",
		"{accelerators: [T4:4, V100:4]}":                 "T4:4 V100:4",
		"{any_of: [{accelerators: T4:4}, {gpus: V100}]}": "T4:4 V100",
		"[{accelerators: L4}, {accelerators: T4}]":       "L4 T4",
		"{ordered: [{gpus: L4}, {gpus: T4}], cpus: 8+}":  "L4 T4",
	} {
		if got := gpusOf(t, "resources: "+text+"\nrun: x"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"1": "1", "24GB": "24GB:1", "A100:40GB:2": "A100:40GB:2", "16GB..24GB": "16GB:1", "1..8": "1+", "L4:2..": "L4:2+",
		"{name: [L4, A10G], count: 2}": "L4:2 A10G:2", "{name: H100, memory: 80GB.., count: 8}": "H100:80GB:8",
	} {
		if got := gpusOf(t, "type: task\ncommands: [x]\nresources: {gpu: "+text+"}"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Each upper end of a range is mentioned: nothing in the file is dropped silently.
func TestTranslateRanges(t *testing.T) {
	for text, want := range map[string]string{
		"type: task\ncommands: [x]\nresources: {gpu: 16GB..24GB}":                                       "resources.gpu: 16GB..24GB; ",
		"type: task\ncommands: [x]\nresources: {gpu: 'A100:1..8'}":                                      "resources.gpu: 1..8; ",
		"type: task\ncommands: [x]\nresources: {gpu: {name: A100, memory: 40GB..80GB, vendor: nvidia}}": "resources.gpu.memory: 40GB..80GB; ",
		"type: task\ncommands: [x]\nresources: {gpu: {count: 1, vendor: nvidia}}":                       "resources.gpu.vendor: ",
		"type: task\ncommands: [x]\nresources: {gpu: {count: {min: 2, max: 4}}}":                        "resources.gpu.count: 2..4; ",
		"type: task\ncommands: [x]\nresources: {cpu: 4..8}":                                             "resources.cpu: 4..8; ",
		"type: task\ncommands: [x]\nresources: {cpu: {arch: arm, count: 4..}}":                          "resources.cpu.arch: arm; ",
		"type: task\ncommands: [x]\nresources: {memory: ..64GB, shm_size: 16GB}":                        "resources.memory: ..64GB; ",
		"type: task\ncommands: [x]":                                                                     "spot_policy: machines are spot machines here",
		"type: task\ncommands: [mpirun --hostfile $DSTACK_MPI_HOSTFILE]":                                "DSTACK_MPI_HOSTFILE: ",
		"run: x\nresources: {cpus: 4..8}":                                                               "resources.cpus: 4..8; ",
		"run: x\nresources: {memory: 16..32}":                                                           "resources.memory: 16..32; ",
	} {
		if _, notes := translated(t, text); !strings.Contains(notes, want) {
			t.Errorf("%s: %q is not noted:\n%s", text, want, notes)
		}
	}
	if _, notes := translated(t, "type: task\ncommands: [x]\nresources: {cpu: 4.., gpu: 24GB.., memory: 8GB..8GB}"); strings.Contains(notes, "upper end") {
		t.Error(notes)
	}
}

func gpusOf(t *testing.T, text string) string {
	t.Helper()
	made, err := Translate("task.yaml", []byte(text), ".")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Resources struct {
			AnyOf []struct{ GPU string } `yaml:"any_of"`
		}
	}
	if err := yaml.Unmarshal(made.Text, &job); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range job.Resources.AnyOf {
		all = append(all, m.GPU)
	}
	return strings.Join(all, " ")
}

func TestTranslateDstack(t *testing.T) {
	t.Setenv("HF_TOKEN", "x")
	job, notes := translated(t, `
type: task
name: train
nodes: 2
python: "3.12"
env: [HF_TOKEN, EPOCHS=3]
files: [train.py]
commands:
  - pip install -r requirements.txt
  - torchrun --node-rank=$DSTACK_NODE_RANK train.py
ports: ["80:8000"]
resources: {cpu: 4.., memory: 16GB.., disk: 100GB}
max_price: 0.5
max_duration: 2h
spot_policy: auto
`)
	if job.Resources.Count.Most != 2 || job.Envs["EPOCHS"] != "3" || len(job.Secrets) != 1 || job.Ports[0] != 8000 || job.MaxDuration.Hours() != 2 ||
		job.Resources.MaxPrice.String() != "0.5" || job.Workdir == "" {
		t.Errorf("%+v", job)
	}
	if m := job.Resources.AnyOf[0]; m.CPUs.String() != "4+" || m.Memory.String() != "16GB+" {
		t.Errorf("%+v", m)
	}
	for _, part := range []string{"python: write an image", "resources.disk: has no counterpart", "files, repos: the folder"} {
		if !strings.Contains(notes, part) {
			t.Errorf("%q is not noted:\n%s", part, notes)
		}
	}
}

func TestTranslateRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"type: service\nname: x":            "task.yaml is a service of dstack: only a task",
		"name: x\n---\nrun: a\n---\nrun: b": "has several tasks",
		"setup: pip install x":              "runs nothing: it has no run",
		"type: task":                        "runs nothing: it has no commands",
		"- 1":                               "is no task of SkyPilot or dstack",
	} {
		if _, err := Translate("task.yaml", []byte(text), "."); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}
