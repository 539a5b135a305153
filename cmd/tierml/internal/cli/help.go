package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/table"
)

// Group is a heading of the first screen, with its commands in order.
type Group struct {
	Title    string
	Commands []string
}

// Arrange puts the commands of a program into groups on its first screen, in order. It panics if a visible command is in no group, or a
// group names one that does not exist: both are bugs.
func Arrange(root *cobra.Command, groups []Group) {
	byName := map[string]*cobra.Command{}
	all := slices.Clone(root.Commands())
	for _, cmd := range all {
		byName[cmd.Name()] = cmd
	}
	cobra.EnableCommandSorting = false // the order within a group is deliberate
	root.RemoveCommand(all...)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title})
		for _, name := range g.Commands {
			cmd := byName[name]
			if cmd == nil {
				panic("cli: there is no command " + name)
			}
			cmd.GroupID = g.Title
			root.AddCommand(cmd)
			delete(byName, name)
		}
	}
	for _, cmd := range all { // the others are hidden or topics
		if byName[cmd.Name()] == nil {
			continue
		}
		if !cmd.Hidden && !cmd.IsAdditionalHelpTopicCommand() {
			panic("cli: the command " + cmd.Name() + " is in no group")
		}
		root.AddCommand(cmd)
	}
	cobra.AddTemplateFunc("settings", settingUsages)
	root.SetUsageTemplate(usage)
	root.SetHelpTemplate(help)
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		defer cmd.SetOut(out)
		var text bytes.Buffer // cobra would print a write error in addition to ours
		cmd.SetOut(&text)
		show(cmd, args)
		_ = table.Folded(out, func(w io.Writer) error { // the stream keeps its first error
			_, err := w.Write(bytes.ReplaceAll(text.Bytes(), []byte(" (default [])"), nil)) // for a flag with several values
			return err
		})
	})
}

// help prints in one sentence what a command is for, followed by the rest: a long text does not repeat the short one.
// The first screen and topics have only a long text.
const help = `{{if and .HasParent (not .IsAdditionalHelpTopicCommand)}}{{.Short}}.

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// usage is the part of help below the long text. A command shows its usage line first, then examples.
const usage = `{{if .HasAvailableSubCommands}}Usage:
  {{.CommandPath}} COMMAND [ARGUMENT...] [--flag...]{{else}}Usage:
  {{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}:{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{with settings .}}

Settings:
{{.}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of all commands:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}

More help:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{.Parent.CommandPath}} help {{rpad .Name 11}}  {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND --help    More about a command, with examples{{end}}
`

// Topic returns a page of help that is not a command.
func Topic(name, short, long string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Long: long}
}

// HelpCommand returns `help`, which reports an unknown word as a mistake, as all commands do.
func HelpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show how to use a command, or explain a topic",
		Long:  "Help prints the help of a command, as --help does, or a page about a topic.",
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		found, rest, err := cmd.Root().Find(args)
		if err != nil || found == nil || len(rest) > 0 && found.HasSubCommands() {
			if found == nil {
				found = cmd.Root()
			}
			word := strings.Join(args, " ")
			if len(rest) > 0 {
				word = rest[0]
			}
			return fmt.Errorf("there is no help about %q%s", word, meantCommand(found, word))
		}
		return nil
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		found, _, err := cmd.Root().Find(args)
		if err != nil {
			return err
		}
		found.InitDefaultHelpFlag() // as --help would
		return found.Help()
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (names []string, directive cobra.ShellCompDirective) {
		found, _, err := cmd.Root().Find(args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, sub := range found.Commands() {
			if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
				names = append(names, sub.Name()+"\t"+sub.Short)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}
