package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/exitcode"
)

// The exit codes of package exitcode.
const (
	ExitDone        = exitcode.Done
	ExitFailed      = exitcode.Failed
	ExitUsage       = exitcode.Usage
	ExitLimit       = exitcode.Limit
	ExitInterrupted = exitcode.Interrupted
)

// Usage marks an error as caused by a wrong command line, or by a wrong file named on it.
func Usage(err error) error { return exitcode.Wrong(err) }

// Exit gives an error an exit code.
func Exit(code int, err error) error { return exitcode.With(code, err) }

// MarkUsageErrors marks argument errors of a command and its subcommands as usage errors.
func MarkUsageErrors(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, sub := range cmd.Commands() {
		MarkUsageErrors(sub)
	}
}

// usageArgs marks the errors of an argument check as usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return Usage(ArgsError(cmd, args, err))
		}
		return nil
	}
}

// Remedy returns advice about an error that any command can have when it writes.
func Remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; make room on that disk, or choose a place on another one, and start again"
	case errors.Is(err, syscall.EROFS):
		return "; choose a place that can be written"
	case errors.Is(err, fs.ErrPermission):
		return "; change its permissions, or choose another place"
	}
	return ""
}

// ExitCodeOf returns the exit code of a command that returned an error.
func ExitCodeOf(err error) int {
	if code, ok := exitcode.Of(err); ok {
		return code
	}
	if _, ok := errors.AsType[config.Faults](err); ok {
		return ExitUsage
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitFailed
}

// UntilInterrupted returns a context that ends at the first Ctrl-C or SIGTERM. A second signal ends the process at once, since it is no
// longer caught.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
