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

// A linear model is fitted again to all examples once it has converged and was measured. When the data cannot be read a second time, the
// model that was measured is kept.
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
