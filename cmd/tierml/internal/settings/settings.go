// Package settings sets flags that a command line leaves out from the environment and the user's settings file, and
// shows them (tierml config). It knows no command.
package settings

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/internal/table"
)

// SharedSetting annotates a flag of many commands that share one setting.
const SharedSetting = "tierml setting"

// Flags that are not given take their values from the environment, else from the user's settings file, else from their defaults. A setting
// is named after its command and flag: `dashboard.listen` in the file, TIERML_DASHBOARD_LISTEN in the environment.

// settingsVariable names the settings file.
const settingsVariable = "TIERML_CONFIG"

// notSettings are flags that only a command line may give, since they apply to one call.
var notSettings = []string{"help", "version", "yes", "resume", cli.SetFlag}

// setting is a flag that a file or a variable can set.
type setting struct {
	Key      string      `json:"setting"`
	Variable string      `json:"variable"`
	Value    string      `json:"value"`
	From     string      `json:"from"` // "default", "file", "environment" or "flag"
	found    string      // the key in the file, or the variable, that gave the value
	Flag     *pflag.Flag `json:"-"`
}

// Settings are all settings in the file and the environment.
type Settings struct {
	Viper *viper.Viper
	path  string // of the file; empty if there is none
	// applied are flags that were set from here, not by the command line.
	applied map[*pflag.Flag]bool
}

// readSettings reads the file, if there is one.
func readSettings() (*Settings, error) {
	s := &Settings{Viper: viper.New()}
	path, named := os.LookupEnv(settingsVariable)
	if !named {
		dir, err := os.UserConfigDir()
		if err != nil {
			return s, nil // a system user without a home has no file
		}
		path = filepath.Join(dir, "tierml", "config.yaml")
	}
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return s, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usage(fmt.Errorf("%s names the settings file %s, which does not exist; create it, or unset the variable", settingsVariable, path))
	case errors.Is(err, syscall.EISDIR):
		return nil, cli.Usage(fmt.Errorf("the settings file %s is a folder; name a file", path))
	case err != nil:
		return nil, cli.Usage(fmt.Errorf("the settings file %s: %w", path, err))
	}
	if err := config.CheckMapping(path, text, "is not a file of settings", "write lines such as ps: and, indented below it, output: wide"); err != nil {
		return nil, cli.Usage(fmt.Errorf("the settings file %w", err))
	}
	s.Viper.SetConfigFile(path)
	s.Viper.SetConfigType("yaml")
	if err := s.Viper.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, cli.Usage(fmt.Errorf("the settings file %s: %w", path, err))
	}
	s.path = path
	return s, nil
}

// Of returns the settings of a command.
func (s *Settings) Of(cmd *cobra.Command) []setting {
	all := s.in(cmd, cmd.LocalFlags())
	return append(all, s.in(cmd, cli.SettingsOf(cmd))...)
}

// in returns the settings of a command in one set: its flags, or the settings without one.
func (s *Settings) in(cmd *cobra.Command, set *pflag.FlagSet) (all []setting) {
	set.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings, f.Name) || f.Hidden {
			return
		}
		words := append(strings.Fields(cmd.CommandPath())[1:], f.Name)
		one := setting{Key: strings.Join(words, "."), Flag: f, Value: f.DefValue, From: "default",
			Variable: "TIERML_" + strings.ToUpper(strings.NewReplacer("-", "_").Replace(strings.Join(words, "_")))}
		if shared := f.Annotations[SharedSetting]; shared != nil {
			one.Key, one.Variable = shared[0], shared[1]
		}
		for _, key := range slices.Backward(namesOf(one.Key)) {
			if s.Viper.InConfig(key) {
				one.Value, one.From, one.found = s.text(key), "file", key
			}
		}
		for _, variable := range slices.Backward(namesOf(one.Variable)) {
			if v, ok := os.LookupEnv(variable); ok {
				one.Value, one.From, one.found = v, "environment", variable
			}
		}
		if f.Changed && !s.applied[f] {
			one.Value, one.From = f.Value.String(), "flag"
		}
		all = append(all, one)
	})
	return all
}

// namesOf returns a setting's key, or variable, and its former one from when the job server was called the controller:
// old files and scripts still work.
func namesOf(name string) []string {
	for _, of := range [][2]string{{"server.", "controller."}, {"TIERML_SERVER", "TIERML_CONTROLLER"}} {
		if rest, ok := strings.CutPrefix(name, of[0]); ok {
			return []string{name, of[1] + rest}
		}
	}
	return []string{name}
}

// text returns a setting as on a command line: a list with commas.
func (s *Settings) text(key string) string {
	if list, ok := s.Viper.Get(key).([]any); ok {
		parts := make([]string, len(list))
		for i, part := range list {
			parts[i] = fmt.Sprint(part)
		}
		return strings.Join(parts, ",")
	}
	return s.Viper.GetString(key)
}

// apply sets the flags that the command line left out.
func (s *Settings) apply(cmd *cobra.Command) error {
	var all []setting
	for c := cmd; c != nil; c = c.Parent() { // including flags that all commands of a group have
		all = append(all, s.Of(c)...)
	}
	for _, one := range all {
		set := cmd.Flags()
		if set.Lookup(one.Flag.Name) != one.Flag {
			set = cli.SettingsOf(cmd)
		}
		if one.From == "default" || one.Flag.Changed || set.Lookup(one.Flag.Name) != one.Flag {
			continue
		}
		if s.applied == nil {
			s.applied = map[*pflag.Flag]bool{}
		}
		s.applied[one.Flag] = true
		if err := set.Set(one.Flag.Name, one.Value); err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", s.place(one), err))
		}
	}
	return nil
}

// place returns where a setting's value comes from.
func (s *Settings) place(one setting) string {
	switch one.From {
	case "environment":
		return "the variable " + one.found
	case "file":
		return one.found + " in " + s.path
	}
	return "the default"
}

// check finds settings in the file that do not exist.
func (s *Settings) check(root *cobra.Command) error {
	keys := s.Viper.AllKeys()
	if len(keys) == 0 {
		return nil // the usual case, in which the flags of all commands need not be listed
	}
	known := map[string]bool{}
	var names []string
	for _, cmd := range everyCommand(root) {
		for _, one := range s.Of(cmd) {
			for _, key := range namesOf(one.Key) {
				known[key] = true
				names = append(names, key)
			}
		}
	}
	var errs []error
	for _, key := range keys {
		if !known[key] {
			instead := ""
			if near := spelling.Nearest(key, names); near != "" {
				instead = " (did you mean " + near + "?)"
			}
			errs = append(errs, fmt.Errorf("the settings file %s: there is no setting %s%s; `tierml config` lists them", s.path, key, instead))
		}
	}
	if len(errs) > 0 {
		return cli.Usage(errors.Join(errs...))
	}
	return nil
}

func everyCommand(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			all = append(all, everyCommand(cmd)...)
		}
	}
	return all
}

// settingsKey is the context key of settings that were read before the command.
type settingsKey struct{}

// TakeSettings runs before each command.
func TakeSettings(cmd *cobra.Command, _ []string) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	if err := s.check(cmd.Root()); err != nil {
		return err
	}
	if err := s.apply(cmd); err != nil {
		return err
	}
	cmd.SetContext(context.WithValue(cmd.Context(), settingsKey{}, s))
	if cli.Quiet(cmd) {
		cmd.SetContext(progress.With(cmd.Context(), nil))
	}
	return nil
}

func NewConfigCommand() *cobra.Command {
	var format string
	var changed bool
	cmd := &cobra.Command{
		Use:   "config [COMMAND]",
		Short: "Show the settings of all commands and the source of each value",
		Long: `A flag that is not on the command line takes its value from the environment, else from the settings file: tierml/config.yaml in the
user's configuration directory (on Linux ~/.config), or the file that ` + settingsVariable + ` names. For example

  dashboard:
    listen: localhost:9000

in the file, or TIERML_DASHBOARD_LISTEN=localhost:9000 in the environment. Flags after -- count, too.`,
		Example: `  tierml config
  tierml config --changed
  TIERML_DRY_RUN_STARTS=500 tierml config dry-run
  tierml config -- dry-run --starts 100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s := cmd.Context().Value(settingsKey{}).(*Settings) // from takeSettings
			of, err := settingsOf(cmd, args)
			if err != nil {
				return err
			}
			rows, seen := []setting{}, map[string]bool{}
			for _, c := range of {
				for _, one := range s.Of(c) {
					if (!changed || one.From != "default") && !seen[one.Key] { // some belong to many commands
						rows, seen[one.Key] = append(rows, one), true
					}
				}
			}
			return writeSettings(cmd.OutOrStdout(), s, rows, format)
		},
	}
	cli.OutputFlag(cmd, &format)
	cmd.Flags().BoolVar(&changed, "changed", false, "only settings that differ from their defaults")
	return cmd
}

// settingsOf returns the commands whose settings are wanted: all, or one, as called with the flags after it.
func settingsOf(cmd *cobra.Command, args []string) ([]*cobra.Command, error) {
	if len(args) == 0 {
		return everyCommand(cmd.Root()), nil
	}
	of, rest, err := cmd.Root().Find(args)
	if err != nil || of == cmd.Root() {
		return nil, cli.Usage(cli.ArgsError(cmd.Root(), args, fmt.Errorf("unknown command %q", args[0])))
	}
	if err := of.ParseFlags(rest); err != nil {
		return nil, cli.Usage(cli.FlagError(of, err))
	}
	all := everyCommand(of)
	for parent := of.Parent(); parent != nil; parent = parent.Parent() {
		all = append(all, parent)
	}
	return all, nil
}

func writeSettings(w io.Writer, s *Settings, rows []setting, format string) error {
	t := table.Table{Data: rows, Columns: []table.Column{
		{Name: "setting", Title: "SETTING"}, {Name: "value", Title: "VALUE"}, {Name: "from", Title: "FROM"}, {Name: "variable", Title: "VARIABLE"},
		{Name: "meaning", Title: "MEANING", Wide: true},
	}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []table.Cell{table.Of(r.Key), table.Of(r.Value), table.Of(r.From), table.Of(r.Variable), table.Of(r.Flag.Usage)})
	}
	if format == table.JSON || format == table.CSV {
		return t.Write(w, format)
	}
	fmt.Fprintf(w, "Settings file: %s\n", cmp.Or(s.path, "none"))
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "Everything has its default.")
		return err
	}
	fmt.Fprintln(w)
	return t.Write(w, format)
}
