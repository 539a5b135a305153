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

// The exit codes, as package exitcode has them.
const (
	ExitDone        = exitcode.Done
	ExitFailed      = exitcode.Failed
	ExitUsage       = exitcode.Usage
	ExitLimit       = exitcode.Limit
	ExitInterrupted = exitcode.Interrupted
)

// Usage marks an error as a wrong command line, or a wrong file that it names.
func Usage(err error) error { return exitcode.Wrong(err) }

// Exit gives an error the exit code that it means.
func Exit(code int, err error) error { return exitcode.With(code, err) }

// MarkUsageErrors covers the arguments of a command and of all below it.
func MarkUsageErrors(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, sub := range cmd.Commands() {
		MarkUsageErrors(sub)
	}
}

// usageArgs marks what a check of arguments finds as a wrong command line.
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

// Remedy returns what to do about what any command can meet when it writes.
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

// UntilInterrupted returns a context that ends at the first Ctrl-C or SIGTERM. A second one ends the process at
// once, as the signal is no longer caught then.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
