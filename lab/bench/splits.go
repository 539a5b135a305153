package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/splitmem"
)

// cutFile cuts a file into one split and returns the program.
func cutFile(kind apps.Kind, path string, holdout float64, params apps.Params) (apps.Program, splitmem.Files, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	files := splitmem.Files{}
	beside := func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(filepath.Dir(path), name)) }
	data, err := kind.Prepare(apps.Input{Name: path, Data: file, Beside: beside},
		apps.Cut{Splits: 1, Holdout: holdout, Seed: 1}, files.Create)
	if err != nil {
		return nil, nil, err
	}
	program, err := kind.New(params, data)
	return program, files, err
}

// timed runs a command and returns its duration in seconds and its output.
func timed(ctx context.Context, program string, args ...string) (float64, []byte, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return time.Since(began).Seconds(), out, err
}
