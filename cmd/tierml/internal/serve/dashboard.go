package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/change"
	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobrun/drill"
	"github.com/tierml/tierml/watch/dashboard"
)

func NewDashboardCommand() *cobra.Command {
	var d dashboardOptions
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve runs to a browser, and their metrics to Prometheus",
		Long: `It reads the journals below ./runs. /metrics is for Prometheus, /api/runs for programs. See docs/watching.md.

On loopback, every user of this host can see everything unless --token-file is given. From elsewhere, use a tunnel (ssh -L
7070:localhost:7070 HOST). Addresses other than loopback need TLS and a token.`,
		Example: `  tierml dashboard
  tierml dashboard --listen localhost:9000 --runs other/runs
  tierml dashboard --listen :7070 --tls-cert cert.pem --tls-key key.pem --token-file token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveDashboard(cmd.Context(), d, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	d.door.flags(cmd, "localhost:7070")
	cmd.Flags().StringVar(&d.tokenFile, "token-file", "", "require the token in this `file`, which is created if missing")
	cmd.Flags().StringVar(&d.root, "runs", rundir.Root, "the `directory` of runs")
	return cmd
}

type dashboardOptions struct {
	door      doorFlags
	tokenFile string
	root      string
}

// doorFlags are the flags of serving commands.
type doorFlags struct{ access.Endpoint }

func (d *doorFlags) flags(cmd *cobra.Command, address string) {
	cmd.Flags().StringVar(&d.Address, "listen", address, "`address` to serve on; port 0 takes any free one")
	cmd.Flags().StringVar(&d.Cert, "tls-cert", "", "the TLS certificate, a PEM `file`")
	cmd.Flags().StringVar(&d.Key, "tls-key", "", "the certificate's key, a PEM `file`")
	cmd.Flags().BoolVar(&d.Plaintext, "plaintext", false, "serve beyond loopback without TLS, behind a proxy that terminates it")
}

func serveDashboard(ctx context.Context, d dashboardOptions, out, errOut io.Writer) error {
	if err := d.door.Check("the dashboard"); err != nil {
		return cli.Usage(err)
	}
	if d.tokenFile == "" && !d.door.Private() {
		return cli.Usage(fmt.Errorf("--listen %s: other hosts can reach it; add --token-file FILE, then only holders of the token see "+
			"anything", d.door.Address))

	}
	if info, err := os.Stat(d.root); d.root != rundir.Root && (err != nil || !info.IsDir()) {
		return cli.Usage(fmt.Errorf("--runs %s: there is no such directory; name the one that contains the runs' directories", d.root))
	}
	log := slog.New(slog.NewTextHandler(errOut, nil))
	board := dashboard.New(d.root, time.Now, log)
	handler := board.Handler()
	if d.tokenFile != "" {
		board.Offers(dashboard.Acts{Stop: stopInOrder, Drill: drillFromPage, Delete: change.DeleteRun})
		token, err := ensureToken(d.tokenFile, out)
		if err != nil {
			return err
		}
		handler = access.NewGate(token, d.door.TLS(), time.Now, log).Handler(board.Guarded())
	}
	listener, err := d.door.Listen()
	if err != nil {
		return fmt.Errorf("serving the dashboard: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var following sync.WaitGroup
	following.Go(func() { board.Run(ctx) })
	fmt.Fprintf(out, "The dashboard is at %s://%s until Ctrl-C\n", d.door.scheme(), listener.Addr())
	err = serveUntil(ctx, access.Server(handler, log), listener)
	stop()
	following.Wait()
	return err
}

// stopInOrder requests a run's end without waiting for it.
func stopInOrder(ctx context.Context, dir string) error {
	return scaling.Stop(ctx, dir, "the dashboard", false)
}

// drillFromPage disturbs a run's oldest transient machine, and returns what `tierml drill` prints. A real cloud's machines are left alone:
// only a terminal can ask for confirmation.
func drillFromPage(ctx context.Context, dir, do string) (string, error) {
	o := change.DrillOptions{Do: do, Choice: drill.Aim{Which: "oldest", Count: 1}, Within: time.Minute, Format: table.Plain}
	if err := o.Check(); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err := o.Run(ctx, dir, strings.NewReader(""), &out, io.Discard)
	return out.String(), err
}

func (d *doorFlags) scheme() string {
	if d.TLS() {
		return "https"
	}
	return "http"
}

// ensureToken returns the token in a file, and creates it if necessary.
func ensureToken(path string, out io.Writer) (access.Token, error) {
	token, made, err := access.Ensure(path)
	if err != nil {
		return token, cli.Usage(err)
	}
	if made {
		fmt.Fprintf(out, "Created a token in %s\n", path)
	}
	return token, nil
}

// serveUntil serves until the context ends; requests in progress then have some seconds.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		err = server.Shutdown(closing)
		if errors.Is(err, context.DeadlineExceeded) { // a client follows a log and would never end
			err = server.Close()
		}
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
