package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tierml/tierml/cmd/tierml/internal/start"
)

var update = flag.Bool("update", false, "rewrite golden texts in testdata/script")

// TestMain lets scripts run this program as `tierml`.
func TestMain(m *testing.M) {
	start.Done()
	if len(os.Args) == 5 && os.Args[1] == "play-tunnel" {
		os.Exit(playTunnel(os.Args[3], os.Args[4]))
	}
	testscript.Main(withBinary{m}, map[string]func(){"tierml": main})
}

// TestScripts: each file is a session with the commands, with its inputs and expected output in one text.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "NO_COLOR=1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exitcode": exitCode},
	})
}

// exitCode runs a command and checks its exit code: `exitcode 2 tierml plan`.
func exitCode(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARGUMENT...]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		coded, ok := errors.AsType[interface {
			error
			ExitCode() int
		}](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = coded.ExitCode()
	}
	if want := args[0]; fmt.Sprint(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// What cannot be printed fails, help too, and says so once.
func TestUnprintable(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"plan", "--help"}, {"version"}, {"help", "exit-codes"}} {
		var said bytes.Buffer
		if code := run(args, nil, fullDisk("write"), &said); code != exitFailed || strings.Count(said.String(), "no space left") != 1 || !strings.Contains(said.String(), "make room") {
			t.Errorf("%v: exit code %d, said %q", args, code, &said)
		}
	}
}

func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		answers          string
		interactive, yes bool
		want             error
		asked            int
	}{
		{answers: "\n", interactive: true, asked: 1},
		{answers: "y\n", interactive: true, asked: 1},
		{answers: " YES \n", interactive: true, asked: 1},
		{answers: "n\n", interactive: true, want: errDeclined, asked: 1},
		{answers: "No\n", interactive: true, want: errDeclined, asked: 1},
		{answers: "what?\nn\n", interactive: true, want: errDeclined, asked: 2},
		{answers: "", interactive: true, want: errDeclined, asked: 1},
		{yes: true},
		{yes: true, interactive: true},
	} {
		var out bytes.Buffer
		err := confirm(strings.NewReader(c.answers), &out, c.interactive, c.yes)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
		if asked := strings.Count(out.String(), "Proceed? [Y/n] "); asked != c.asked {
			t.Errorf("%+v: asked %d times", c, asked)
		}
	}
}

func TestConfirmWithoutTerminal(t *testing.T) {
	err := confirm(strings.NewReader("y\n"), &bytes.Buffer{}, false, false)
	if err == nil || !strings.Contains(err.Error(), "add -y") || exitCodeOf(err) != exitUsage {
		t.Errorf("error %v with exit code %d", err, exitCodeOf(err))
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("broken"), exitFailed},
		{usageError{errors.New("wrong flag")}, exitUsage},
		{fmt.Errorf("running: %w", exitError{exitLimit, errors.New("budget used up")}), exitLimit},
		{fmt.Errorf("running: %w", context.Canceled), exitInterrupted},
		{errDeclined, exitFailed},
	} {
		if got := exitCodeOf(c.err); got != c.want {
			t.Errorf("exit code of %v is %d, want %d", c.err, got, c.want)
		}
	}
}

// `tierml controller` is the former name of `tierml server`, with all that is below it.
func TestFormerNameOfTheServer(t *testing.T) {
	root := newRootCommand()
	for _, args := range [][]string{{"server"}, {"server", "start"}, {"server", "stop"}, {"server", "tunnel"}} {
		want, _, err := root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := root.Find(append([]string{"controller"}, args[1:]...)); err != nil || got != want || got == root {
			t.Errorf("tierml controller %v is %v, %v", args[1:], got, err)
		}
	}
}
