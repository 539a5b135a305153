package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/atomicfile"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/watch/console"
)

// remote is the job server that a command means, if any.
type remote struct {
	url, tokenFile, authority string
	elsewhere                 bool // a run of this host is not meant
}

// noServer is this host, whatever the settings say.
const noServer = "none"

// sharedSetting annotates a flag that many commands have: its setting is one for all of them.
const sharedSetting = "tierml setting"

// flags gives a command the choice of a job server.
func (r *remote) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.url, "server", "", "use a job server: its `URL`, a job file or a cluster's name; none: runs of this host")
	cmd.Flags().StringVar(&r.tokenFile, "token-file", "",
		"the `file` with the job server's token (default: the variable TIERML_TOKEN, or tierml/token in the configuration directory)")
	cmd.Flags().StringVar(&r.authority, "server-ca", "", "trust the certificates in this `file`, in place of the system's")
	for flag, setting := range map[string][]string{ // any order: each by itself
		"server":     {"server.url", "TIERML_SERVER"},
		"token-file": {"server.token-file", "TIERML_SERVER_TOKEN_FILE"},
		"server-ca":  {"server.ca", "TIERML_SERVER_CA"},
	} {
		_ = cmd.Flags().SetAnnotation(flag, sharedSetting, setting) // it exists
	}
}

// presentName lets the flags --controller and --controller-ca stand for --server and --server-ca: the job server was called so once.
func presentName(_ *pflag.FlagSet, flag string) pflag.NormalizedName {
	switch flag {
	case "controller":
		flag = "server"
	case "controller-ca":
		flag = "server-ca"
	}
	return pflag.NormalizedName(flag)
}

// direct reaches the job server at an address.
func (r *remote) direct() (*call.Client, error) {
	token, err := r.token()
	if err != nil {
		return nil, usageError{err}
	}
	client, err := call.New(r.url, token, r.authority)
	if err != nil {
		return nil, usageError{fmt.Errorf("--server: %w", err)}
	}
	return client, nil
}

// tokenVariable holds the token itself, where there are no files.
const tokenVariable = "TIERML_TOKEN"

// tokenNamed says that the user has named a token.
func (r *remote) tokenNamed() bool {
	_, ok := os.LookupEnv(tokenVariable)
	return ok || r.tokenFile != ""
}

func (r *remote) token() (access.Token, error) {
	if text, ok := os.LookupEnv(tokenVariable); ok && r.tokenFile == "" {
		token, err := access.Parse(text)
		if err != nil {
			err = fmt.Errorf("%s: %w; copy it from the file `token` of the job server's directory", tokenVariable, err)
		}
		return token, err
	}
	path := r.tokenFile
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return access.Token{}, errors.New("--server needs its token: name its file with --token-file")
		}
		path = filepath.Join(dir, "tierml", "token")
	}
	token, err := access.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("--server needs its token: %s does not exist; copy the file `token` of the job server's directory there, or name it "+
			"with --token-file", path)
	}
	return token, err
}

// meantJob is the job that arguments mean to a job server.
func meantJob(args []string) string {
	if len(args) == 0 {
		return "latest"
	}
	return filepath.Base(args[0]) // runs/demo-1 is demo-1
}

// source hands over the entries of a journal in order, and those that come; caught is called when there is nothing more for
// now.
type source func(ctx context.Context, take func(journal.Entry), caught func()) error

// localSource reads a run of this host.
func localSource(dir string) source {
	return func(ctx context.Context, take func(journal.Entry), caught func()) error {
		return runs.Follow(ctx, dir, take, caught)
	}
}

// remoteSource reads a job of a job server.
func remoteSource(client *call.Client, id string, follow bool) source {
	return func(ctx context.Context, take func(journal.Entry), caught func()) error {
		if follow {
			return client.FollowEvents(ctx, id, take, caught)
		}
		_, err := client.Events(ctx, id, false, 0, take, caught)
		return err
	}
}

// remoteTop watches a job of a job server.
func remoteTop(ctx context.Context, client *call.Client, args []string, plain bool, out io.Writer) error {
	job, err := client.Job(ctx, meantJob(args))
	if err != nil {
		return err
	}
	if call.State(job.State).Over() {
		_, err := fmt.Fprintf(out, "%s is %s%s. `tierml events %[1]s` says what happened, `tierml report %[1]s` what it cost.\n", job.Run, job.State, because(job.Why))
		return err
	}
	_, err = attach(ctx, client, job.Run, plain, out)
	return err
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// waitForTurn reports a job's place in the queue until its run begins, or it is over.
func waitForTurn(ctx context.Context, client *call.Client, id string, out io.Writer) (job call.Job, err error) {
	bar := progress.Start(ctx, "Waiting for its turn", 0, progress.Things)
	defer bar.Done()
	out = progress.From(ctx).Writer(out)
	for said := ""; ; {
		err = client.Patient(ctx, func() error { job, err = client.Job(ctx, id); return err })
		if err != nil || call.State(job.State) != call.Queued {
			return job, err
		}
		text := fmt.Sprintf("%s is queued, place %d%s", id, job.Place, because(job.Why))
		if text != said {
			said = text
			fmt.Fprintln(out, text)
		}
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// attach shows a job of a job server until it is over, or the reader leaves (left).
func attach(ctx context.Context, client *call.Client, id string, plain bool, out io.Writer) (left bool, err error) {
	ctx, leave := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer leave()
	job, err := waitForTurn(ctx, client, id, out)
	if err == nil && !call.State(job.State).Over() {
		view := console.New(out, console.Options{Plain: plain, Watching: true, OnInterrupt: leave})
		show := view.Recall // what is past is not reported again line by line
		err = client.FollowEvents(ctx, id, func(e journal.Entry) { show(e) }, func() { show = view.Feed })
		if closing := view.Close(); err == nil {
			err = closing
		}
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(out, "\nDetached; %s continues at the job server.\nWatch    tierml top %[1]s\nEnd      tierml stop %[1]s\n", id)
		return true, nil
	}
	return false, err
}

// remoteStop ends a job of a job server and waits until it has ended.
func remoteStop(ctx context.Context, client *call.Client, args []string, now bool, format string, out io.Writer) error {
	job, err := client.Job(ctx, meantJob(args))
	if err != nil {
		return err
	}
	before := call.State(job.State).Over()
	if !before {
		if job, err = client.Stop(ctx, job.Run, call.Stop{Now: now, By: "tierml stop"}); err != nil {
			return err
		}
		fmt.Fprintf(onTheWay(out, format), "%s is asked to end ...\n", job.Run)
	}
	bar := progress.Start(ctx, "Waiting until "+job.Run+" has ended", 0, progress.Things)
	defer bar.Done()
	for !ended(job) {
		select {
		case <-ctx.Done():
			return exitError{exitInterrupted, fmt.Errorf("not waited for; %s is still ending: `tierml ps` shows it", job.Run)}
		case <-time.After(300 * time.Millisecond):
		}
		next, err := client.Job(ctx, job.Run)
		if err != nil && !call.Temporary(err) {
			return err
		}
		if err == nil {
			job = next
		}
	}
	bar.Done()
	if job.Summary.Clock == 0 && job.Summary.Spent == "" && forPeople(format) {
		_, err := fmt.Fprintf(out, "%s is %s%s.\n", job.Run, job.State, because(job.Why))
		return err
	}
	return ending{job.Summary, before, call.State(job.State) == call.Stopped}.say(out, job.Run, format)
}

// ended reports whether nothing of a job runs, also of one that was not submitted.
func ended(job call.Job) bool {
	return call.State(job.State).Over() || job.Submitted == nil && job.State != "running"
}

// fetchRun copies what the report of a job is made from into a directory.
func fetchRun(ctx context.Context, client *call.Client, id, dir string) error {
	for _, name := range []string{rundir.JournalFile, rundir.CloudFile} {
		err := fetchFile(ctx, client, id, name, filepath.Join(dir, name))
		if refused, ok := errors.AsType[call.Refused](err); ok && refused.Status == 404 && name == rundir.CloudFile {
			continue // only runs of cloud: local have it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func fetchFile(ctx context.Context, client *call.Client, id, name, path string) error {
	return atomicfile.WriteTo(path, 0o644, func(w io.Writer) error { return client.File(ctx, id, name, w) })
}
