package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SetFlag is the flag of commands with more settings than people type: it sets one that has no flag of its own.
const SetFlag = "set"

// setValue is the value of SetFlag.
type setValue struct{ settings *pflag.FlagSet }

// MoreSettings adds SetFlag to a command and returns the settings that it can set. The settings file and the environment have them, as they
// have flags.
func MoreSettings(cmd *cobra.Command) *pflag.FlagSet {
	v := &setValue{pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)}
	cmd.Flags().Var(v, SetFlag, "set one of the settings below, `NAME=VALUE`; repeatable")
	// It fails only if the flag already has a function.
	_ = cmd.RegisterFlagCompletionFunc(SetFlag, func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		v.settings.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name+"=\t"+strings.ReplaceAll(f.Usage, "`", "")) })
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	return v.settings
}

// SettingsOf returns the settings of a command that have no flag of their own; none if all have one.
func SettingsOf(cmd *cobra.Command) *pflag.FlagSet {
	if f := cmd.Flags().Lookup(SetFlag); f != nil {
		if v, ok := f.Value.(*setValue); ok {
			return v.settings
		}
	}
	return new(pflag.FlagSet)
}

func (v *setValue) String() string { return "" }
func (v *setValue) Type() string   { return "setting" }

func (v *setValue) Set(text string) error {
	name, value, valued := strings.Cut(text, "=")
	f := v.settings.Lookup(name)
	if f == nil {
		var names []string
		v.settings.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return fmt.Errorf("there is no setting %s%s", name, DidYouMean(name, names))
	}
	if !valued {
		value = f.NoOptDefVal
	}
	return v.settings.Set(name, value)
}

// settingUsages lists the settings of a command for its help.
func settingUsages(cmd *cobra.Command) string {
	return strings.ReplaceAll(strings.TrimRight(SettingsOf(cmd).FlagUsages(), "\n"), "      --", "  ")
}

// Moved lets a command answer a former flag with what to write now.
func Moved(cmd *cobra.Command, instead string, flags ...string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	for _, flag := range flags {
		cmd.Annotations["--"+flag] = instead
	}
}

// insteadOf returns what to write for a flag that a command does not have: a setting, or what Moved says; empty if it had none.
func insteadOf(cmd *cobra.Command, flag string) string {
	if f := SettingsOf(cmd).Lookup(flag); f != nil {
		if f.NoOptDefVal == "" {
			flag += "=VALUE"
		}
		return "; write --" + SetFlag + " " + flag
	}
	if instead := cmd.Annotations["--"+flag]; instead != "" {
		return "; write " + instead
	}
	return ""
}
