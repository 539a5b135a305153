package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A variable may be empty, like CUDA_VISIBLE_DEVICES to hide all devices; one without a value is refused with what to write.
func TestEmptyVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.yaml")
	load := func(envs string) (*Job, error) {
		if err := os.WriteFile(path, []byte("run: echo\nenvs: "+envs+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(path)
	}
	job, err := load(`{CUDA_VISIBLE_DEVICES: ""}`)
	if err != nil {
		t.Fatal(err)
	}
	if v, there := job.Envs["CUDA_VISIBLE_DEVICES"]; !there || v != "" {
		t.Errorf("%q", job.Envs)
	}
	if err := os.WriteFile(path, job.Resolved(), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(path); err != nil || len(again.Envs) != 1 {
		t.Errorf("the resolved job: %v", err)
	}
	if _, err := load("{CUDA_VISIBLE_DEVICES: }"); err == nil || !strings.Contains(err.Error(), `write CUDA_VISIBLE_DEVICES: "" for an empty one`) {
		t.Error(err)
	}
}
