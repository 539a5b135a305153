package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/apps/all"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
)

// complete lets shells complete the arguments and flags of all commands: names of runs where a command's usage says RUN, job files where it
// says JOB.yaml, and the words that a flag accepts.
func complete(cmd *cobra.Command) {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	switch {
	case cmd.ValidArgsFunction != nil:
	case cmd.HasSubCommands() && strings.Contains(arguments, "JOB.yaml"):
		cmd.ValidArgsFunction = jobFiles
	case cmd.HasSubCommands():
	case strings.Contains(arguments, "RUN"):
		cmd.ValidArgsFunction = runNames
	case strings.Contains(arguments, "JOB.yaml"):
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		}
	case arguments == "":
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for name, words := range map[string][]string{ // any order: each is independent
		"policy": config.Policies(), "cloud": config.Clouds(),
		"provider": config.Played(), "app": applications(),
	} {
		cli.CompleteFlag(cmd, name, words...)
	}
	for _, name := range []string{"resume", "runs"} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.MarkFlagDirname(name)
		}
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// jobFiles completes job files where names of subcommands are offered too, which a filter of file names would hide.
func jobFiles(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	names, _ := filepath.Glob(word + "*.y*ml") // a word that is no pattern has no matches
	return names, cobra.ShellCompDirectiveDefault
}

// applications returns the names of all.
func applications() (names []string) {
	for _, kind := range all.Registry() {
		names = append(names, kind.Name())
	}
	return names
}

// runNames completes the names of runs, a job's newest run first, as a job's name means that one.
func runNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	several := strings.Contains(cmd.Use, "RUN...") || strings.Contains(cmd.Use, "RUN [")
	if len(args) > 0 && !several {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) > 0 && strings.Contains(cmd.Use, "MACHINE") {
		return machineNames(args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	dirs, err := runs.List(rundir.Root)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = filepath.Base(dir)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// machineNames returns the machines with logs in a run.
func machineNames(run string) (names []string) {
	dir, err := runs.Find(rundir.Root, run)
	if err != nil {
		return nil
	}
	logs, _ := filepath.Glob(filepath.Join(dir, rundir.LogsDir, "*.log")) // the pattern is valid
	for _, log := range logs {
		names = append(names, strings.TrimSuffix(filepath.Base(log), ".log"))
	}
	return names
}
