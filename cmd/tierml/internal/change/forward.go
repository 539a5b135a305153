package change

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/enter"
)

func NewForwardCommand() *cobra.Command {
	var o machineSelector
	var local int
	cmd := &cobra.Command{
		Use:   "forward RUN [PORT]",
		Short: "Forward a port of this host to one that a program listens on",
		Long: `It lasts until Ctrl-C or until the machine ends. PORT is optional if the job's ports: lists just one. Nothing is opened to the outside.
On the fake cloud it prints the port's address on the run's host.

` + whichMachine,
		Example: `  tierml forward finetune 6006
  tierml forward sweep 8080 --task 3 --local 9090`,
		Args: cli.Arguments(1, 2, "name a run and a port, such as: tierml forward finetune-1 6006"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.forward(cmd, args, local) },
	}
	o.flags(cmd)
	cmd.Flags().IntVar(&local, "local", 0, "the `port` of this host; 0: the same number")
	return cmd
}

func (o *machineSelector) forward(cmd *cobra.Command, args []string, local int) error {
	m, err := o.find(cmd, args[:1])
	if err != nil {
		return err
	}
	port, err := portOf(m, args[1:])
	if err != nil {
		return cli.Usage(err)
	}
	out := cmd.OutOrStdout()
	if m.Place.Cloud == config.CloudLocal {
		fmt.Fprintf(out, "Machine %s is a process of this host: its port %d is at http://127.0.0.1:%[2]d\n", m.Machine.ID, port)
		return nil
	}
	if local == 0 {
		local = port
	}
	m.Place.Port = port
	words := m.Place.TunnelCommand(local)
	if len(words) == 0 {
		return fmt.Errorf("forward does not support cloud %s", m.Place.Cloud)
	}
	if err := enter.Missing(m.Place, words, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "Port %d of machine %s is at http://127.0.0.1:%d; Ctrl-C ends it.\n", port, m.Machine.ID, local)
	return enter.RunFor(words, os.Stdout)
}

// portOf returns the named port, or the job's only one.
func portOf(m enter.Selected, named []string) (int, error) {
	if len(named) > 0 {
		port, err := strconv.Atoi(named[0])
		if err != nil || port < 1 || port > 65535 {
			return 0, fmt.Errorf("%s is not a port: write 1 to 65535", named[0])
		}
		return port, nil
	}
	var job struct {
		Ports []int `yaml:"ports"`
	}
	if err := yaml.Unmarshal(m.Job, &job); err != nil {
		return 0, fmt.Errorf("reading the run's job: %w", err)
	}
	switch len(job.Ports) {
	case 0:
		return 0, fmt.Errorf("the job of %s has no ports: name one, such as: tierml forward %[1]s 6006", m.Run)
	case 1:
		return job.Ports[0], nil
	}
	return 0, fmt.Errorf("the job of %s has the ports %v: name one of them", m.Run, job.Ports)
}
