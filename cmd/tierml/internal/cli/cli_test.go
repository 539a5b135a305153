package cli

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program returns a small program.
func program() *cobra.Command {
	root := &cobra.Command{Use: "tool", Long: "Tool does things.", SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	work := &cobra.Command{Use: "work FILE", Short: "Work on a file", Long: "Work works <hard> | long.", Example: "  tool work a\n  tool work b",
		SuggestFor: []string{"launch"}, RunE: func(*cobra.Command, []string) error { return nil }}
	work.Flags().IntP("number", "n", 3, "so `many`")
	work.Flags().String("kind", "", "which | kind")
	parts := &cobra.Command{Use: "parts", Short: "Parts of it", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	parts.AddCommand(&cobra.Command{Use: "show", Short: "Show parts", RunE: func(*cobra.Command, []string) error { return nil }})
	help := HelpCommand()
	root.SetHelpCommand(help)
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().BoolP(QuietFlag, "q", false, "say less")
	root.AddCommand(parts, work, help, CompletionCommand("tool"), Topic("tides", "What the tides do", "They come and go."),
		&cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	Arrange(root, []Group{{"Work", []string{"work", "parts"}}, {"Itself", []string{"help", "completion"}}})
	return root
}

func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := program()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestFirstScreen(t *testing.T) {
	text, err := output(t)
	if err != nil {
		t.Fatal(err)
	}
	want := `Tool does things.

Usage:
  tool COMMAND [ARGUMENT...] [--flag...]

Work:
  work        Work on a file
  parts       Parts of it

Itself:
  completion  Print the completion script of bash, zsh, fish or powershell

Flags:
  -h, --help    help for tool
  -q, --quiet   say less

More help:
  tool help tides        What the tides do
  tool COMMAND --help    More about a command, with examples
`
	if text != want {
		t.Errorf("printed\n%s\nwant\n%s", text, want)
	}
}

func TestHelpOfCommandsAndTopics(t *testing.T) {
	for args, want := range map[string]string{
		"help work": "Usage:\n  tool work FILE [flags]\n\nExamples:\n  tool work a\n", "work --help": "  -n, --number many   so many (default 3)\n",
		"help tides": "They come and go.", "help parts show": "tool parts show", "help": "Tool does things.",
	} {
		if text, err := output(t, strings.Fields(args)...); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s", args, err, text)
		}
	}
	if text, err := output(t, "work", "--help"); err != nil || !strings.Contains(text, "Flags of all commands:\n  -q, --quiet") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestMistakes(t *testing.T) {
	root := program()
	for word, want := range map[string]string{"wrok": "tool work", "launch": "tool work", "LAUNCH": "tool work", "secret": "", "zebra": ""} {
		err := ArgsError(root, []string{word}, errors.New(`unknown command "`+word+`" for "tool"`))
		if asked := strings.Contains(err.Error(), "did you mean"); asked != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
	for line, want := range map[string]string{
		"help wrok": "there is no help about \"wrok\" (did you mean `tool work`?)", "help parts shwo": "did you mean `tool parts show`?",
		"completion tcsh": "there is no completion for", "completion": "name one shell",
	} {
		if _, err := output(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	root.SetFlagErrorFunc(FlagError)
	for line, want := range map[string]string{
		"work --nubmer 4": "unknown flag: --nubmer (did you mean --number?); see `tool work --help`",
		"work --zebra":    "unknown flag: --zebra; see", "work -z": "unknown shorthand flag", "work -n x": "--number: \"x\" is not a whole number; see",
	} {
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if got := DidYouMean("uniform-progres", []string{"tierml", "uniform-progress"}); got != "; did you mean uniform-progress?" {
		t.Error(got)
	}
	if got := DidYouMean("tierml", []string{"tierml"}); got != "" {
		t.Error(got)
	}
}

// A command in no group would be missing on the first screen; a group with an unknown command is a bug.
func TestArrangePanics(t *testing.T) {
	for name, groups := range map[string][]Group{"no group": nil, "no command": {{"Work", []string{"work"}}, {"Other", []string{"rest"}}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			root := &cobra.Command{Use: "tool"}
			root.AddCommand(&cobra.Command{Use: "work", Run: func(*cobra.Command, []string) {}})
			Arrange(root, groups)
		}()
	}
}

func TestSteps(t *testing.T) {
	var out bytes.Buffer
	WriteSteps(&out, Step{"tool plan a.yaml", "starts nothing"}, Step{"tool run a.yaml", ""})
	if want := "Next  tool plan a.yaml   (starts nothing)\n      tool run a.yaml\n"; out.String() != want {
		t.Errorf("printed\n%s", &out)
	}
	out.Reset()
	cmd := &cobra.Command{}
	cmd.SetErr(&out)
	Next(cmd, Step{"tool", "again"}) // not a terminal
	if out.Len() > 0 || Quiet(cmd) {
		t.Errorf("printed %q", &out)
	}
}

func TestDevNullIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) || IsTerminal(&bytes.Buffer{}) {
		t.Error("no terminal, but taken for one")
	}
}
