package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/config"
)

func ExampleLoad() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hello.yaml")
	_ = os.WriteFile(path, []byte("run: echo hello\nbudget: $2\n"), 0o600)
	job, err := config.Load(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Name, job.Cloud, job.Run, job.Budget)
	// Output: hello local echo hello 2
}

// All mistakes are reported at once, each with its position and remedy.
func ExampleFaults() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hello.yaml")
	_ = os.WriteFile(path, []byte("run: echo hello\nbuget: $2\nmax_duration: 10\n"), 0o600)
	_, err := config.Load(path)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			fmt.Printf("line %d: %s: %s; %s\n", f.Line, f.Field, f.Problem, f.Instead)
		}
	}
	// Output:
	// line 2: buget: unknown field; did you mean budget?
	// line 3: max_duration: "10" has no unit; write 10s, 10m or 10h
}
