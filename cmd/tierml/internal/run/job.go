package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/planner/jobinit"
)

// JobSource is what the arguments of a command name: a job file, or the source of a job.
type JobSource struct {
	File    string          // of the job
	command *config.Command // a program or data; nil = file
	Said    config.Overrides
	target  string // the column to predict, of data
}

func (s *JobSource) targetFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.target, "target", "", "the `column` of a data file to predict")
}

// Flags adds the flags that complete a job.
func (s *JobSource) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.Said.Name, "name", "", "the job's `name`, instead of the file's")
	cmd.Flags().StringVar(&s.Said.Budget, "budget", "", "the `most` that the run may cost, such as $20")
	s.targetFlag(cmd)
	cmd.Flags().StringArrayVar(&s.Said.Envs, "env", nil, "an environment variable of the program, `NAME=VALUE`, or NAME for its value here")
}

// Take parses the arguments: one path, or the words of a command after --.
func (s *JobSource) Take(cmd *cobra.Command, args []string) (err error) {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) > 0:
		line := args[0] // one word may be a whole shell command line
		if len(args) > 1 {
			line = terminal.ShellLine(args)
		}
		s.command = &config.Command{Run: line, Name: nameOfCommand(args)}
		return nil
	case dash > 0:
		return errors.New("name a job file, or a command after --; not both")
	case len(args) == 0 && cmd.Name() == "train":
		return errors.New("name a file of training data, as in: " + cmd.CommandPath() + " ratings.csv; or a job file (`tierml init` writes one)")
	case len(args) == 0:
		return errors.New("name a job file (`tierml init` writes one); or a command, as in: " + cmd.CommandPath() + " -- python3 train.py")
	case len(args) > 1:
		return fmt.Errorf("name one job file; there are %d arguments. A command is written after --", len(args))
	}
	s.File = args[0]
	if config.IsJobFile(s.File) {
		if s.target != "" {
			return errors.New("--target is for a data file; a job file has train.params.target")
		}
		return nil
	}
	if s.command, err = jobinit.CommandOf(s.File, s.target); err != nil {
		return err
	}
	return nil
}

// LoadAny is Load, also for a file of machines that jobs share.
func (s *JobSource) LoadAny() (*config.Job, error) {
	if s.command == nil {
		if job, err := config.LoadAny(s.File); err == nil && job.IsHosts() {
			return job, nil
		}
	}
	return s.Load()
}

// Load creates the job.
func (s *JobSource) Load() (*config.Job, error) {
	if s.command != nil {
		return s.command.Load(s.Said)
	}
	return config.LoadWith(s.File, s.Said)
}

// nameOfCommand returns the name of the first file in a command, or of the program.
func nameOfCommand(words []string) string {
	if len(words) == 1 {
		words = strings.Fields(words[0])
	}
	for i, w := range words {
		if info, err := os.Stat(w); err == nil && info.Mode().IsRegular() && !filepath.IsAbs(w) {
			return config.NameOf(w)
		}
		if i > 0 && words[i-1] == "-m" {
			return config.NameOf(strings.ReplaceAll(w, ".", "-"))
		}
	}
	if len(words) == 0 {
		return "job"
	}
	return config.NameOf(words[0])
}

// String returns the source as typed.
func (s *JobSource) String() string {
	if s.command != nil && s.command.Run != "" && s.File == "" {
		return "-- " + s.command.Run
	}
	return s.File
}
