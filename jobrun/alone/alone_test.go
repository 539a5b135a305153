package alone

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
)

// A linear model is refitted to all examples once it has converged and was measured. If the data cannot be read a second time, the measured
// model is kept.
func TestDataIsGoneForTheSecondFit(t *testing.T) {
	dir := t.TempDir()
	var table strings.Builder
	table.WriteString("x,y,target\n")
	for i := range 60 {
		fmt.Fprintf(&table, "%d,%d,%d\n", i%7, i%5, 3*(i%7)-2*(i%5)+i%2)
	}
	data, file, model := filepath.Join(dir, "once.csv"), filepath.Join(dir, "once.yaml"), filepath.Join(dir, "once.safetensors")
	for path, text := range map[string]string{data: table.String(),
		file: "name: once\ncloud: none\ntrain: {app: linear, data: once.csv, clocks: 60, holdout: 0.2, params: {target: target}}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	measured := writerFunc(func(p []byte) (int, error) { return len(p), os.Remove(data) })
	err = Run(t.Context(), Options{Output: model, Threads: 1, UntilLoss: math.Inf(-1)}, job, measured, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "was trained without those held out: ") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it does not say what model there is: %v", err)
	}
	if _, err := os.Stat(model); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// A file with train.deterministic: true trains as on machines, without the flag.
func TestFileMayBeDeterministic(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "ratings.csv"), filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(data, []byte("1,1,3\n1,2,4\n2,1,5\n2,2,1\n3,1,2\n3,2,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, want := range map[string]string{"true": "as on machines", "false": "in place"} {
		text := "name: once\ncloud: none\ntrain: {app: mf, data: ratings.csv, clocks: 2, splits: 2, params: {rank: 2}, deterministic: " + says + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		job, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if err := Run(t.Context(), Options{Output: filepath.Join(dir, "m"), Threads: 1, UntilLoss: math.Inf(-1)}, job, &said, &said); err != nil || !strings.Contains(said.String(), want) {
			t.Errorf("deterministic: %s: %v\n%s", says, err, said.String())
		}
	}
}
