package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// splitMemory is split files in memory.
type splitMemory map[ps.Split]*bytes.Buffer

type splitFile struct{ *bytes.Buffer }

func (splitFile) Close() error { return nil }

func (m splitMemory) create(id ps.Split) (io.WriteCloser, error) {
	m[id] = new(bytes.Buffer)
	return splitFile{m[id]}, nil
}

func (m splitMemory) open(id ps.Split) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m[id].Bytes())), nil
}

// cutFile cuts a file into one split and makes the program.
func cutFile(kind apps.Kind, path string, holdout float64, params apps.Params) (apps.Program, splitMemory, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	files := splitMemory{}
	beside := func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(filepath.Dir(path), name)) }
	data, err := kind.Prepare(apps.Input{Name: path, Data: file, Beside: beside},
		apps.Cut{Splits: 1, Holdout: holdout, Seed: 1}, files.create)
	if err != nil {
		return nil, nil, err
	}
	program, err := kind.New(params, data)
	return program, files, err
}

// timed runs a command and gives the seconds that it took, and what it printed.
func timed(ctx context.Context, program string, args ...string) (float64, []byte, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return time.Since(began).Seconds(), out, err
}

// processorTime runs a command and gives the seconds of a processor that it took.
func processorTime(ctx context.Context, program string, args ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}
