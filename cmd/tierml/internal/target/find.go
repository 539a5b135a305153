package target

import (
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
)

// FindRun returns the directory of the run that the arguments mean.
func FindRun(args []string) (string, error) {
	meant := ""
	if len(args) > 0 {
		meant = args[0]
	}
	dir, err := runs.Find(rundir.Root, meant)
	if err != nil {
		return "", cli.Usage(err)
	}
	return dir, nil
}
