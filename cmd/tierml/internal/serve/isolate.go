package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/jobmanager/isolate"
)

// perGroup are the flags and settings that each group's job server gets. Others cannot be used with --isolate.
var perGroup = []string{"allow", "max-running", "max-queued", "max-upload", "job-memory", "keep-free", "keep-inputs", "over-budget"}

// ownFlags are the flags of the process in front.
var ownFlags = []string{cli.SetFlag, "isolate", "groups", "directory", "listen", "tls-cert", "tls-key", "plaintext"}

// serveGroups serves each group's jobs by a job server of its own, which package isolate runs.
func serveGroups(ctx context.Context, o serverOptions, server *cobra.Command, out, errOut io.Writer) error {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		return cli.Usage(errors.New("--isolate needs root on Linux, which starts processes of other users"))
	}
	if err := o.door.Check("the job server"); err != nil {
		return cli.Usage(err)
	}
	args, err := argsOf(server)
	if err != nil {
		return cli.Usage(err)
	}
	if o.home, err = filepath.Abs(o.home); err != nil {
		return err
	}
	if err := os.MkdirAll(o.home, 0o711); err != nil {
		return err
	}
	release, err := rundir.HoldUntil(o.home)
	if err != nil {
		return fmt.Errorf("another job server uses the directory %s: end it, or name another --directory", o.home)
	}
	defer release()
	servers, err := isolate.Open(o.home, o.groupFile)
	if err != nil {
		return cli.Usage(err)
	}
	if err := servers.Listen(); err != nil {
		return err
	}
	defer servers.Close()
	listener, err := o.door.Listen()
	if err != nil {
		return fmt.Errorf("serving the job server: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(errOut, nil))
	gate := access.NewGate(access.Random(), o.door.TLS(), time.Now, log) // no client has that token, which is for cookies
	grant(gate, servers.Groups)
	var keeping sync.WaitGroup
	keeping.Go(func() { servers.Run(ctx, args, errOut, log) })
	fmt.Fprintf(out, "The job servers of %d groups and their dashboards are at %s://%s until Ctrl-C, which ends no job.\n", len(servers.Groups), o.door.scheme(), listener.Addr())
	err = serveUntil(ctx, access.Server(gate.Handler(servers.Handler()), log), listener)
	stop()
	keeping.Wait()
	return err
}

// argsOf returns the flags and settings that a group's job server gets.
func argsOf(server *cobra.Command) (args []string, err error) {
	pass := func(prefix string) func(f *pflag.Flag) {
		return func(f *pflag.Flag) {
			switch list, is := f.Value.(pflag.SliceValue); {
			case slices.Contains(ownFlags, f.Name):
			case !slices.Contains(perGroup, f.Name):
				err = fmt.Errorf("%s%s is for all groups together, and with --isolate each has its own job server: leave it out", prefix, f.Name)
			case is:
				for _, one := range list.GetSlice() {
					args = append(args, prefix+f.Name+"="+one)
				}
			default:
				args = append(args, prefix+f.Name+"="+f.Value.String())
			}
		}
	}
	server.Flags().Visit(pass("--"))
	cli.SettingsOf(server).Visit(pass("--" + cli.SetFlag + "="))
	return args, err
}

// serveBehind serves one group's jobs, at the socket that serveGroups has opened, until standard input ends.
func serveBehind(ctx context.Context, manager *jobmanager.Manager, groups map[string]jobmanager.Group, log *slog.Logger) error {
	_ = syscall.Umask(0o077) // also for programs, which write to folders that all users share, such as /tmp
	listener, err := isolate.Behind()
	if err != nil {
		return cli.Usage(err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	gate := access.NewGate(access.Token{}, false, time.Now, log)
	grant(gate, groups)
	var keeping sync.WaitGroup
	keeping.Go(func() { manager.Run(ctx) })
	err = serveUntil(ctx, access.Server(gate.Behind(manager.Handler()), log), listener)
	stop()
	keeping.Wait()
	return err
}
