package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/dashboard"
	"github.com/tierml/tierml/internal/localrun"
)

func newDashboardCommand() *cobra.Command {
	var address, root string
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show runs in a browser while they go on, and their metrics to Prometheus",
		Long: `Dashboard serves pages about the runs below ./runs, those that go on and those that have ended, until Ctrl-C. It
reads their journals, so it can be started and stopped at any time. /metrics is for Prometheus, /api/runs for programs.

It listens on this host only: whoever can reach it sees everything. From elsewhere use a tunnel:
  ssh -L 7070:localhost:7070 HOST`,
		Example: `  tierml dashboard
  tierml dashboard --listen localhost:9000 --runs other/runs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveDashboard(cmd.Context(), address, root, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&address, "listen", "localhost:7070", "loopback `address` to serve on; port 0 takes any free one")
	cmd.Flags().StringVar(&root, "runs", localrun.Root, "the `directory` in which the runs' directories are")
	return cmd
}

func serveDashboard(ctx context.Context, address, root string, out, errOut io.Writer) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usageError{fmt.Errorf("--listen %s: %w; write it as localhost:7070", address, err)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError{fmt.Errorf("--listen %s: the dashboard has no log-in and listens on this host only; "+
			"write localhost:7070, and reach it from elsewhere by `ssh -L 7070:localhost:7070 HOST`", address)}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving the dashboard: %w; another --listen address may be free", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	board := dashboard.New(root, time.Now, slog.New(slog.NewTextHandler(errOut, nil)))
	var following sync.WaitGroup
	following.Go(func() { board.Run(ctx) })
	server := &http.Server{Handler: board.Handler(), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(out, "The dashboard is at http://%s until Ctrl-C\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		err = server.Shutdown(closing)
		<-ended
	}
	stop()
	following.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
