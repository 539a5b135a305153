package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/planner/jobinit"
)

// jobSource is what the arguments of a command name: a job file, or something that one follows from.
type jobSource struct {
	file    string          // of a job
	command *config.Command // a program or data; nil = file
	said    config.Overrides
}

// flags are those that complete a job.
func (s *jobSource) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.said.Name, "name", "", "the job's `name`, in place of the file's")
	cmd.Flags().StringVar(&s.said.Budget, "budget", "", "the `most` that the run may cost, such as $20")
	cmd.Flags().StringArrayVar(&s.said.Envs, "env", nil, "an environment variable of the program, `NAME=VALUE`; NAME alone takes its value from here")
}

// take reads the arguments: one path, or the words of a command after --.
func (s *jobSource) take(cmd *cobra.Command, args []string) (err error) {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) > 0:
		line := args[0] // one word may be a whole line of a shell
		if len(args) > 1 {
			line = shellLine(args)
		}
		s.command = &config.Command{Run: line, Name: nameOfCommand(args)}
		return nil
	case dash > 0:
		return errors.New("name a job file, or a command after --; not both")
	case len(args) == 0:
		return errors.New("name a job file, such as examples/demo.yaml; or a command, as in: " + cmd.CommandPath() + " -- python3 train.py")
	case len(args) > 1:
		return fmt.Errorf("name one job file; there are %d arguments. A command is written after --", len(args))
	}
	s.file = args[0]
	if config.IsJobFile(s.file) {
		return nil
	}
	if s.command, err = jobinit.CommandOf(s.file); err != nil {
		return err
	}
	return nil
}

// loadAny is load, also for a file of machines that jobs share.
func (s *jobSource) loadAny() (*config.Job, error) {
	if s.command == nil {
		if job, err := config.LoadAny(s.file); err == nil && job.IsHosts() {
			return job, nil
		}
	}
	return s.load()
}

// load makes the job.
func (s *jobSource) load() (*config.Job, error) {
	if s.command != nil {
		return s.command.Load(s.said)
	}
	return config.LoadWith(s.file, s.said)
}

// nameOfCommand is the name of the first file that a command names, or of the program.
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

// String returns it as it was typed.
func (s *jobSource) String() string {
	if s.command != nil && s.command.Run != "" && s.file == "" {
		return "-- " + s.command.Run
	}
	return s.file
}
