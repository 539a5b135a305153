package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CompletionCommand returns the command that prints a shell's completion script; it replaces cobra's own, whose
// subcommands have no examples.
func CompletionCommand(program string) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of bash, zsh, fish or powershell",
		Long: strings.ReplaceAll(`With the script, the Tab key completes commands, flags, names of runs and machines, job files, policies. In the open shell:

  bash   source <(PROGRAM completion bash)      (needs the package bash-completion)
  zsh    autoload -U compinit; compinit; source <(PROGRAM completion zsh)
  fish   PROGRAM completion fish | source

For every new shell:

  bash   PROGRAM completion bash > ~/.local/share/bash-completion/completions/PROGRAM
  zsh    PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
  fish   PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish`, "PROGRAM", program),
		Example: "  " + program + " completion bash\n  " + program + " completion zsh\n  " + program + " completion fish",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return shells, cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one shell: " + strings.Join(shells, ", "))
			}
			for _, shell := range shells {
				if args[0] == shell {
					return nil
				}
			}
			return fmt.Errorf("there is no completion for %q, but for %s%s", args[0], strings.Join(shells, ", "), DidYouMean(args[0], shells))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCompletion(cmd.Root(), args[0], cmd.OutOrStdout())
		},
	}
}

func writeCompletion(root *cobra.Command, shell string, out io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(out, true)
	case "zsh":
		return root.GenZshCompletion(out)
	case "fish":
		return root.GenFishCompletion(out, true)
	}
	return root.GenPowerShellCompletionWithDesc(out)
}

// PlainUsage removes the marks for value names from the descriptions of flags: shells would show them.
func PlainUsage(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		PlainUsage(sub)
	}
}
