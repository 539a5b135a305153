package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rows of growth compare this build with one from before the work on scale, from the repository's history.
const formerCommit = "1038a36"

// builds are the programs of both builds, and the program that measures them from outside.
type builds struct {
	now, former build
	trials      string
	tree        string // of the former build, while it exists
}

type build struct {
	tierml    string
	footprint string // lab/footprint, with this build's client and server
}

// newBuilds compiles both builds. The former build is compiled in a work tree of its own; today's lab/footprint is
// compiled there too, without the file about garbage collection, which that build does not support.
func newBuilds(ctx context.Context, env *Env) (b *builds, err error) {
	lab, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(lab)
	b = &builds{tree: filepath.Join(env.Dir, "former"), trials: filepath.Join(env.Dir, "trials")}
	if _, err := command(ctx, root, "git", "worktree", "add", "--force", "--detach", b.tree, formerCommit); err != nil {
		return nil, fmt.Errorf("%s is not in this clone's history (git fetch --unshallow brings it): %w", formerCommit, err)
	}
	defer func() {
		_, removed := command(context.WithoutCancel(ctx), root, "git", "worktree", "remove", "--force", b.tree)
		err = errors.Join(err, removed)
	}()
	files, err := filepath.Glob("footprint/*.go")
	if err != nil {
		return nil, err
	}
	then := filepath.Join(b.tree, "test/footprint")
	if err := os.MkdirAll(then, 0o755); err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && filepath.Base(file) != "heap.go" {
			err = os.WriteFile(filepath.Join(then, filepath.Base(file)), text, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	b.now = build{filepath.Join(env.Dir, "tierml-now"), filepath.Join(env.Dir, "footprint-now")}
	b.former = build{filepath.Join(env.Dir, "tierml-former"), filepath.Join(env.Dir, "footprint-former")}
	for _, c := range [][3]string{{root, b.now.tierml, "./cmd/tierml"}, {lab, b.now.footprint, "./footprint"}, {lab, b.trials, "./trials"},
		{b.tree, b.former.tierml, "./cmd/tierml"}, {b.tree, b.former.footprint, "./test/footprint"}} {
		fmt.Fprintf(os.Stderr, "compiling %s of %s\n", c[2], filepath.Base(c[1]))
		if _, err := command(ctx, c[0], cmp.Or(os.Getenv("GO"), "go"), "build", "-o", c[1], c[2]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// command runs a program in a folder and returns what it printed.
func command(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes(), nil
}

// patience is the time limit of one command, so that the whole ends in time.
const patience = 3 * time.Minute

// processorSeconds returns a program's processor time, which is more meaningful than elapsed time on a machine with
// other work. It returns NaN if the program exceeds patience.
func processorSeconds(ctx context.Context, program string, args ...string) (float64, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(limited, program, args...)
	out, err := cmd.CombinedOutput()
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		fmt.Fprintf(os.Stderr, "%s %s takes more than %v\n", filepath.Base(program), args[0], patience)
		return math.NaN(), nil
	case err != nil:
		return 0, fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

// lastRow returns the numbers of the last row of a Markdown table, by the words of its header.
func lastRow(out []byte) (map[string]float64, error) {
	var header, row []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		if row = strings.Split(strings.Trim(line, "|"), "|"); header == nil {
			header = row
		}
	}
	numbers := map[string]float64{}
	for i := range min(len(header), len(row)) {
		if x, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64); err == nil {
			numbers[strings.TrimSpace(header[i])] = x
		}
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("there is no table in %q", out)
	}
	return numbers, nil
}

// shots are the results of a program that returns several figures at once, for repeated runs: all rows use the same
// runs.
type shots struct {
	run  func(context.Context) (map[string]float64, error)
	done []map[string]float64
}

// figure returns a Measure of one figure.
func (s *shots) figure(name string) Measure {
	next := 0
	return func(ctx context.Context) (float64, error) {
		if next == len(s.done) {
			numbers, err := s.run(ctx)
			if err != nil {
				return 0, err
			}
			s.done = append(s.done, numbers)
		}
		x, found := s.done[next][name]
		if !found {
			return 0, fmt.Errorf("no %q among %v", name, s.done[next])
		}
		next++
		return x, nil
	}
}
