package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/start"
	"github.com/tierml/tierml/internal/confine"
)

var update = flag.Bool("update", false, "rewrite golden texts in testdata/script")

// TestMain lets scripts run this program as `tierml`.
func TestMain(m *testing.M) {
	confine.Main()
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
			env.Vars = append(env.Vars, "NO_COLOR=1", "NO_PROGRESS=1") // progress shows after seconds: the speed of a busy computer must not matter
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

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be printed is a failure, even for help, and is reported once.
func TestUnprintable(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"plan", "--help"}, {"version"}, {"help", "exit-codes"}} {
		var said bytes.Buffer
		if code := tierml(args, nil, fullDisk{}, &said); code != cli.ExitFailed || strings.Count(said.String(), "no space left") != 1 || !strings.Contains(said.String(), "make room") {
			t.Errorf("%v: exit code %d, said %q", args, code, &said)
		}
	}
}

// `tierml controller` is the former name of `tierml server`, with all its subcommands.
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
