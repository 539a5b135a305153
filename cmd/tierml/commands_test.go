package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
	"github.com/tierml/tierml/internal/rundir"
)

// everyone is everyCommand, including hidden ones.
func everyone(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, cmd := range root.Commands() {
		all = append(all, everyone(cmd)...)
	}
	return all
}

// example finds calls of this program in a line of an example, up to a pipe or the end of the command.
var example = regexp.MustCompile(`(?:^|; )(?:[A-Z_]+=\S+ )*tierml( [^|;#]*)?`)

// A settings key or variable has one meaning: flags that share one are the same flag of several commands.
func TestASettingMeansOneThing(t *testing.T) {
	means := map[string]string{}
	for _, cmd := range everyone(newRootCommand()) {
		for _, one := range (&settings.Settings{Viper: viper.New()}).Of(cmd) {
			for _, name := range []string{one.Key, one.Variable} {
				if other, had := means[name]; had && other != one.Flag.Usage {
					t.Errorf("%s of %s is %q, and %q", name, cmd.CommandPath(), one.Flag.Usage, other)
				}
				means[name] = one.Flag.Usage
			}
		}
	}
}

// Each command has help with an example, and each example is a valid call.
func TestHelp(t *testing.T) {
	for _, cmd := range everyone(newRootCommand()) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.IsAdditionalHelpTopicCommand() {
				return
			}
			if cmd.Short == "" || cmd.Example == "" {
				t.Fatal("short text or example is missing")
			}
			if strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 100 {
				t.Errorf("the short text %q is long or ends in a full stop", cmd.Short)
			}
			own := 0
			for line := range strings.Lines(cmd.Example) {
				for _, m := range example.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
					if takes(t, splitLine(m[1])) == cmd.CommandPath() {
						own++
					}
				}
			}
			if own == 0 && cmd.HasParent() && !cmd.HasSubCommands() {
				t.Error("no example calls it")
			}
			for line := range strings.Lines(cmd.Long) {
				if len([]rune(line)) > 145 {
					t.Errorf("a line of its help has %d characters: %s", len([]rune(line)), line)
				}
			}
		})
	}
}

// splitLine splits simple lines as shells do.
func splitLine(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// takes checks a call without making it, and returns the path of its command.
func takes(t *testing.T, args []string) string {
	t.Helper()
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		t.Fatalf("tierml %v: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("tierml %v: %v", args, err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil && cmd.Name() != "run" && cmd.Name() != "dry-run" { // theirs depend on flags
		t.Errorf("tierml %v: %v", args, err)
	}
	return cmd.CommandPath()
}

// The first screen guides newcomers, and leads to every command and topic; it has at most 72 lines of 120 columns.
func TestFirstScreen(t *testing.T) {
	var out bytes.Buffer
	if code := tierml(nil, nil, &out, &out); code != cli.ExitDone {
		t.Fatalf("exit code %d", code)
	}
	text := out.String()
	for _, cmd := range newRootCommand().Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && !strings.Contains(text, "\n  "+cmd.Name()+" ") && !strings.Contains(text, "\n  tierml help "+cmd.Name()+" ") {
			t.Errorf("%s is missing", cmd.Name())
		}
	}
	if n := strings.Count(text, "\n"); n > 72 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(text) {
		if len(line) > 120 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	out.Reset()
	if code := tierml([]string{"help", "exit-codes"}, nil, &out, &out); code != cli.ExitDone || !strings.Contains(out.String(), exitCodes) {
		t.Errorf("exit code %d, exit codes\n%s", code, &out)
	}
}

// Misspelt words, and words of other tools, lead to the right one, with the exit code for a wrong command line.
func TestMistakesInWords(t *testing.T) {
	t.Setenv("TIERML_CONFIG", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"plam"}, "there is no command \"plam\" in tierml (did you mean `tierml plan`?); see `tierml --help`"},
		{[]string{"status"}, "did you mean `tierml ps`?"},
		{[]string{"prices", "shw"}, "did you mean `tierml prices show`?"},
		{[]string{"plan", "--outpt", "json"}, "unknown flag: --outpt (did you mean --output?); see `tierml plan --help`"},
		{[]string{"plan", "-z"}, "unknown shorthand flag"},
		{[]string{"ps", "x"}, "tierml ps takes no arguments"},
		{[]string{"help", "repot"}, "there is no help about \"repot\" (did you mean `tierml report`?)"},
		{[]string{"help", "prices", "shw"}, "did you mean `tierml prices show`?"},
		{[]string{"completion", "fihs"}, "did you mean fish?"},
		{[]string{"fakecloud"}, "tierml fakecloud needs --catalog and --prices; see `tierml fakecloud --help`"},
	} {
		var out bytes.Buffer
		if code := tierml(c.args, nil, &out, &out); code != cli.ExitUsage || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d, said %s", c.args, code, &out)
		}
	}
}

// All commands that print lists offer the same formats with the same flag.
func TestOutputFlags(t *testing.T) {
	for _, cmd := range everyone(newRootCommand()) {
		if f := cmd.Flags().Lookup("output"); f != nil && !f.Hidden {
			for _, word := range []string{"csv", "json"} {
				if f.Shorthand != "o" || !strings.Contains(f.Usage, word) {
					t.Errorf("%s: -o says %q, which lacks %s", cmd.CommandPath(), f.Usage, word)
				}
			}
		}
	}
}

// completions requests completions as the shells do.
func completions(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := tierml(append([]string{"__complete"}, args...), nil, &out, &errOut); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, &errOut)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		words = append(words, word)
	}
	return words, lines[len(lines)-1]
}

func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"demo-1", "demo-2"} {
		for _, file := range []string{rundir.JournalFile, rundir.LogsDir + "/i-7.log"} {
			path := filepath.Join(rundir.Root, name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"top", ""}, []string{"demo-1", "demo-2"}},
		{[]string{"events", "demo-1", ""}, nil},
		{[]string{"report", "demo-1", ""}, []string{"demo-1", "demo-2"}},
		{[]string{"logs", "demo-2", ""}, []string{"i-7"}},
		{[]string{"plan", ""}, []string{"yaml", "yml"}},
		{[]string{"ps", "-o", ""}, []string{"table", "wide", "json", "csv"}},
		{[]string{"init", "--cloud", ""}, []string{"local", "ec2", "gce", "kubernetes", "none"}},
	} {
		if got, directive := completions(t, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%v completes to %v %s; want %v", c.args, got, directive, c.want)
		}
	}
	if got, _ := completions(t, "run", "--policy", "ch"); !slices.Contains(got, "checkpoint") {
		t.Errorf("policies complete to %v", got)
	}
	if got, _ := completions(t, "completion", ""); !slices.Contains(got, "fish") {
		t.Errorf("shells complete to %v", got)
	}
	var flags, said bytes.Buffer
	if code := tierml([]string{"__complete", "run", "--pol"}, nil, &flags, &said); code != cli.ExitDone || strings.Contains(flags.String(), "`") {
		t.Errorf("exit code %d, with marks: %s", code, &flags)
	}
	if got, _ := completions(t, "init", "--app", ""); !slices.Contains(got, "mf") {
		t.Errorf("applications complete to %v", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		if code := tierml([]string{"completion", shell}, nil, &out, &out); code != cli.ExitDone || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
}
