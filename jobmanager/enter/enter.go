// Package enter runs a command on machines of runs, where a program runs: machines of a provider through its command line, those of a fake
// cloud in their folders.
package enter

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tierml/tierml/internal/exitcode"

	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/providers"
)

// Elsewhere runs it on a provider's machine, through the provider's command line.
func Elsewhere(p reach.Place, command []string, out io.Writer) error {
	line := "sudo bash -c 'exec bash " + providers.Home + "/.tierml/*/" + program.EnterScript + ` "$@"' ` + program.EnterScript
	for _, word := range command {
		line += " " + terminal.Quoted(word)
	}
	words, codeless := p.MachineCommand(line, len(command) == 0 || terminal.IsTerminal(os.Stdin) && terminal.IsTerminal(os.Stdout))
	if len(words) == 0 {
		return fmt.Errorf("exec and ssh do not support cloud %s", p.Cloud)
	}
	if err := Missing(p, words, out); err != nil {
		return err
	}
	if len(command) == 0 || !codeless {
		return RunFor(words, os.Stdout)
	}
	mark := "tierml-" + rand.Text()
	words, _ = p.MachineCommand(fmt.Sprintf("printf %s; %s; printf '%s%%d.' $?", mark, line, mark), false)
	return marked(words, mark, os.Stdout)
}

// Missing shows a provider's command if programs that it needs are not installed, and where to get them.
func Missing(p reach.Place, words []string, out io.Writer) error {
	missing := p.Missing(words)
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(out, "Machine %s is entered by\n  %s\n", p.Instance, terminal.ShellLine(words))
	return errors.New(strings.Join(missing, "\ntierml: "))
}

// marked runs a command that prints a mark, then its output, then the mark again with an exit code and a dot.
func marked(words []string, mark string, out io.Writer) error {
	between := &betweenMarks{mark: []byte(mark), out: out}
	err := RunFor(words, between)
	if code, ok := between.code(); ok {
		if code == 0 {
			return nil
		}
		return exitcode.Passed(code)
	}
	if err == nil {
		err = errors.New("the session ended before the command did")
	}
	return err
}

// betweenMarks passes on the text between two marks, and keeps the text after the second.
type betweenMarks struct {
	mark []byte
	out  io.Writer
	seen int
	held []byte
}

func (b *betweenMarks) Write(p []byte) (int, error) {
	b.held = append(b.held, p...)
	for b.seen < 2 {
		i := bytes.Index(b.held, b.mark)
		show := i
		if i < 0 { // the end may be the beginning of a mark
			show = max(0, len(b.held)-len(b.mark)+1)
		}
		if b.seen == 1 {
			if _, err := b.out.Write(b.held[:show]); err != nil {
				return 0, err
			}
		}
		b.held = b.held[show:]
		if i < 0 {
			break
		}
		b.seen, b.held = b.seen+1, b.held[len(b.mark):]
	}
	return len(p), nil
}

func (b *betweenMarks) code() (int, bool) {
	digits, _, dot := strings.Cut(string(b.held), ".")
	code, err := strconv.Atoi(digits)
	return code, b.seen == 2 && dot && err == nil
}

// Here runs it on a fake cloud's machine: a folder of this host.
func Here(m Selected, command []string) error {
	scripts, err := filepath.Glob(filepath.Join(m.Home, ".tierml", "*", program.EnterScript))
	if err != nil || len(scripts) == 0 {
		return fmt.Errorf("machine %s has no program yet", m.Machine.ID)
	}
	return RunFor(append([]string{"bash", scripts[0]}, command...), os.Stdout)
}

// RunFor runs a command with this process's terminal; input there, including Ctrl-C, is for the command. Its exit code is passed on.
func RunFor(words []string, out io.Writer) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT)
	defer signal.Stop(signals)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitcode.Passed(128 + int(status.Signal()))
		}
		return exitcode.Passed(ended.ExitCode())
	}
	return err
}
