package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Env is what groups share: a folder that is deleted at the end, and the locations of peers.
type Env struct {
	Dir  string // for what is built and generated
	Self string // this program

	builds *builds // nil until a group needs them
}

func newEnv() (*Env, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tierml-bench-")
	if err != nil {
		return nil, err
	}
	return &Env{Dir: dir, Self: self}, nil
}

func (e *Env) close() { _ = os.RemoveAll(e.Dir) }

// Peer returns the path of a peer's program or folder, which an environment variable may override, or a reason to skip.
func (e *Env) Peer(variable, usual string) (path, skip string) {
	path = cmp.Or(os.Getenv(variable), usual)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Sprintf("there is no %s, nor does %s= name another (lab/bench/results.md, Peers)", path, variable)
	}
	return path, ""
}

// among returns the usual path of a peer.
func among(name string) string { return filepath.Join(cmp.Or(os.Getenv("PEERS"), "../../peers"), name) }

// Compile builds a C or C++ source of lab/bench/c with the machine's compiler.
func (e *Env) Compile(ctx context.Context, source string, args ...string) (program, skip string) {
	compiler := "cc"
	if strings.HasSuffix(source, ".cc") {
		compiler = "c++"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return "", "there is no " + compiler
	}
	if _, err := os.Stat("bench/c"); err != nil {
		return "", "not run from lab"
	}
	program = filepath.Join(e.Dir, strings.ReplaceAll(source, ".", "-"))
	all := append([]string{"-O3", "-march=native", "-o", program, filepath.Join("bench/c", source)}, args...)
	if out, err := exec.CommandContext(ctx, compiler, all...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		return "", fmt.Sprintf("%s does not compile", source)
	}
	return program, ""
}

// Process is a program that reads requests and writes answers, one line each. Its first line is "ready",
// followed by words.
type Process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	Words []string // after "ready"
}

// Start starts a program and waits until it is ready. Env are additional variables.
func Start(ctx context.Context, env []string, program string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	words, err := p.line()
	if err != nil || len(words) == 0 || words[0] != "ready" {
		p.Kill()
		return nil, fmt.Errorf("%s: not ready: %v, %w", program, words, err)
	}
	p.Words = words[1:]
	return p, nil
}

func (p *Process) line() ([]string, error) {
	if !p.out.Scan() {
		return nil, errors.Join(p.out.Err(), io.ErrUnexpectedEOF)
	}
	return strings.Fields(p.out.Text()), nil
}

// Ask sends a line and returns the numbers of the answer.
func (p *Process) Ask(format string, args ...any) ([]float64, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return nil, err
	}
	words, err := p.line()
	if err != nil {
		return nil, err
	}
	numbers := make([]float64, len(words))
	for i, w := range words {
		if numbers[i], err = strconv.ParseFloat(w, 64); err != nil {
			return nil, fmt.Errorf("%s answers %q", p.cmd.Path, strings.Join(words, " "))
		}
	}
	return numbers, nil
}

// Close ends the program's standard input, and waits for its end.
func (p *Process) Close() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// Kill ends it immediately.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	p.Close()
}

// cpuSeconds returns the processor time that processes have used so far, in all of their threads, in seconds. The
// kernel counts it in nanoseconds in schedstat; ended threads are not counted, so measure programs that keep their
// threads.
func cpuSeconds(pids []string) (float64, error) {
	total := 0.0
	for _, pid := range pids {
		files, err := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		if err != nil || len(files) == 0 {
			return 0, fmt.Errorf("no processor time is known of process %s", pid)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has just ended
			}
			nanoseconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
			if err != nil {
				return 0, err
			}
			total += nanoseconds / 1e9
		}
	}
	return total, nil
}
