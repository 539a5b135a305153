package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
)

// referencePage is the beginning of docs/cli.md.
const referencePage = `# Commands

<!-- made from the commands themselves by make golden; change their help, not this page -->

` + "`tierml COMMAND --help`" + ` says more, with examples. RUN is a run's directory, its name below
./runs, or the name of a job, which means its latest run; where it may be left out, the run whose journal was written last. Defaults are in parentheses.
`

// docs/cli.md is what the commands print; `make golden` writes it.
func TestReferencePage(t *testing.T) {
	const path = "../../docs/cli.md"
	var page bytes.Buffer
	if err := writeReference(&page, newRootCommand(), referencePage); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, page.Bytes()) {
		t.Errorf("%s is out of date (%v): write it by `make golden`, and read the difference", path, err)
	}
}

func TestReference(t *testing.T) {
	var out bytes.Buffer
	root := &cobra.Command{Use: "tool"}
	root.PersistentFlags().BoolP("quiet", "q", false, "say less")
	work := &cobra.Command{Use: "work FILE", Short: "Work on a file", Run: func(*cobra.Command, []string) {}}
	work.Flags().IntP("number", "n", 3, "so `many`")
	work.Flags().String("kind", "", "which | kind")
	parts := &cobra.Command{Use: "parts", Short: "Parts of it"}
	parts.AddCommand(&cobra.Command{Use: "show", Short: "Show parts", Run: func(*cobra.Command, []string) {}})
	for _, name := range []string{"one", "two", "three", "four"} {
		part := &cobra.Command{Use: name, Short: "Part " + name, Run: func(*cobra.Command, []string) {}}
		part.Flags().Bool("dry", false, "change nothing")
		parts.AddCommand(part)
	}
	root.AddCommand(parts, work, cli.Topic("tides", "What the tides do", "They come and go."),
		&cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	cli.Arrange(root, []cli.Group{{Title: "Work", Commands: []string{"work", "parts"}}})
	if err := writeReference(&out, root, "# Commands\n"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## Work\n", "### tool parts show\n",
		"### tool work\n\n`tool work FILE`\n\nWork on a file.\n\n- `--kind string`: which | kind\n", "- `-n, --number many` (`3`): so many\n", "## What the tides do",
		"- `-q, --quiet`: say less\n", "### tool parts two\n\nPart two.\n", "`parts one`, `parts two`, `parts three`, `parts four`:\n\n- `--dry`: change nothing\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(out.String(), "change nothing"); n != 1 {
		t.Errorf("a flag of four commands is described %d times", n)
	}
	if strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "--help") {
		t.Error("what is hidden is shown")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// writeReference writes a page in Markdown about every visible command, by group, with its flags, and every topic.
func writeReference(w io.Writer, root *cobra.Command, introduction string) error {
	var b strings.Builder
	b.WriteString(introduction)
	common := commonFlags(shown(root))
	if len(common) > 0 {
		b.WriteString("\n## Flags of several commands\n")
		writeCommon(&b, common)
	}
	b.WriteString("\n## Flags of all commands\n\n")
	for _, row := range flagRows(root.PersistentFlags()) {
		b.WriteString(row.text)
	}
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", group.Title)
		for _, cmd := range shown(root) {
			if groupOf(cmd) == group.ID {
				describe(&b, cmd, common)
			}
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.IsAdditionalHelpTopicCommand() {
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", cmd.Short, strings.TrimSpace(cmd.Long))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shown returns the subcommands that are listed, in order.
func shown(parent *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			all = append(append(all, cmd), shown(cmd)...)
		}
	}
	return all
}

// groupOf returns the group of a command or of its parent.
func groupOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		if cmd.GroupID != "" {
			return cmd.GroupID
		}
	}
	return ""
}

func describe(b *strings.Builder, cmd *cobra.Command, common map[string][]string) {
	fmt.Fprintf(b, "\n### %s\n\n", cmd.CommandPath())
	if usage := strings.TrimSuffix(cmd.UseLine(), " [flags]"); usage != cmd.CommandPath() {
		fmt.Fprintf(b, "`%s`\n\n", usage)
	}
	fmt.Fprintf(b, "%s.\n", cmd.Short)
	var own string
	for _, row := range flagRows(cmd.LocalFlags()) {
		if common[row.text] == nil {
			own += row.text
		}
	}
	if own != "" {
		b.WriteString("\n" + own)
	}
	if settings := flagRows(cli.SettingsOf(cmd)); len(settings) > 0 {
		b.WriteString("\nSettings:\n\n")
		for _, row := range settings {
			b.WriteString(strings.Replace(row.text, "`--", "`", 1))
		}
	}
}

// commonFlags returns the rows of flags that several commands share, and these commands.
func commonFlags(commands []*cobra.Command) map[string][]string {
	of := map[string][]string{}
	for _, cmd := range commands {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		for _, row := range flagRows(cmd.LocalFlags()) {
			of[row.text] = append(of[row.text], "`"+name+"`")
		}
	}
	maps.DeleteFunc(of, func(_ string, names []string) bool { return len(names) < 2 })
	return of
}

// writeCommon writes shared flags below their commands, those of most commands first.
func writeCommon(b *strings.Builder, common map[string][]string) {
	rows, size := map[string]string{}, map[string]int{}
	for _, row := range slices.Sorted(maps.Keys(common)) {
		names := strings.Join(common[row], ", ")
		rows[names], size[names] = rows[names]+row, len(common[row])
	}
	for _, names := range slices.SortedFunc(maps.Keys(rows), func(x, y string) int {
		return cmp.Or(cmp.Compare(size[y], size[x]), strings.Compare(x, y))
	}) {
		fmt.Fprintf(b, "\n%s:\n\n%s", names, rows[names])
	}
}

// flagRow is a flag and its line in a list.
type flagRow struct{ name, text string }

// flagRows returns the flags of a set, without those of every command.
func flagRows(set *pflag.FlagSet) (rows []flagRow) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, meaning := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		rows = append(rows, flagRow{f.Name, fmt.Sprintf("- `%s`%s: %s\n", name, defaultOf(f), oneLine(meaning))})
	})
	return rows
}

// defaultOf returns a flag's default; nothing if it is off or empty.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "[]", "0s":
		return ""
	}
	return " (`" + strings.Trim(f.DefValue, "[]") + "`)"
}

// oneLine fits a text into a list.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "<", "&lt;", "`", "").Replace(text)
}

// A flag's placeholder says what to write, in the field's words: never the name of a Go type.
func TestPlaceholdersAreNotGoTypes(t *testing.T) {
	raw := []string{"int", "uint", "float", "string", "strings", "stringArray", "stringToString", "ints", "durations"}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); !f.Hidden && slices.Contains(raw, kind) {
				t.Errorf("%s --%s %s: put the placeholder into backquotes in the flag's usage", cmd.CommandPath(), f.Name, kind)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
}

// mostFlags is how many flags of its own a command may have: people read them all. What is seldom typed is a setting.
const mostFlags = 15

func TestCommandsHaveFewFlags(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		var names []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Name != cli.QuietFlag { // of all commands
				names = append(names, f.Name)
			}
		})
		if len(names) > mostFlags {
			t.Errorf("%s has %d flags, of at most %d: make some settings (cli.MoreSettings): %s", cmd.CommandPath(), len(names), mostFlags, strings.Join(names, " "))
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
}

// A flag that has become a setting, or moved to another command, is answered with what to write now.
func TestFormerFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"write --set job-memory=VALUE":                            {"server", "--job-memory", "64"},
		"write --set verbose;":                                    {"fakecloud", "--verbose"},
		"write `tierml resume RUN --skip-damaged`":                {"run", "--resume", "demo", "--skip-damaged"},
		"write `tierml dry-run availability FILE":                 {"dry-run", "--availability", "a.json"},
		"write `tierml dry-run jobs FILE`":                        {"dry-run", "--jobs", "sweep:75:3m"},
		"there is no setting job-memry; did you mean job-memory?": {"server", "--set", "job-memry=64"},
		`--set max-queued: "some" is not a whole number`:          {"server", "--set", "max-queued=some"},
	} {
		var errOut bytes.Buffer
		if code := tierml(args, nil, io.Discard, &errOut); code != cli.ExitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: exit code %d, %s; want %q", args, code, errOut.String(), want)
		}
	}
}
