// Package notice reads what a machine on Compute Engine can learn about itself from its metadata server: that it will
// be reclaimed, its identity, and its user data. It runs inside the machine and needs no credentials. It does not use
// the Compute Engine API, whose client is large; providers/gce/api does.
//
// The server is found as Google's client finds it: GCE_METADATA_HOST in the environment, else the link-local address.
package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/marked"
	"github.com/tierml/tierml/provisioner"
)

// Values of the metadata server (https://docs.cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
// timeout_sec bounds a call that waits: if answerWithin has to cut it off, the server hangs. It is then queried again,
// and a preemption that it reports still has most of its 30 s left.
const (
	pathPreempted   = "instance/preempted?timeout_sec=10"
	pathMaintenance = "instance/maintenance-event?timeout_sec=10"
	pathAttributes  = "instance/attributes/"
)

// Attributes that providers/gce/api sets on machines.
const (
	AttributeUserData = "tierml-user-data"
	AttributeNotice   = "tierml-notice" // a duration, wall-clock
)

// DefaultLength is the time from the start of a preemption to its end unless specified otherwise: Compute Engine
// promises no more for Spot machines.
const DefaultLength = 30 * time.Second

// How long the server may take to answer, including calls that wait, and the time needed to pass a notice on.
const (
	answerWithin = 12 * time.Second
	valueWithin  = 2 * time.Second
)

// Config of the metadata client.
type Config struct {
	// AnswerWithin replaces 12 s, for tests.
	AnswerWithin time.Duration
	// Clock maps wall-clock to market time, in which deadlines are reported (default: they are the same).
	Clock clock.Mapping
	// Pause is the time between retries after a failure, wall-clock (default 1 s).
	Pause time.Duration
	// Report gets failures that Watch survives; nil = dropped. A repeated failure is reported once.
	Report func(error)
}

func (c Config) withDefaults() Config {
	if c.Clock == (clock.Mapping{}) {
		c.Clock = clock.Real()
	}
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	if c.Report == nil {
		c.Report = func(error) {}
	}
	return c
}

// service is the metadata server.
type service struct {
	client    *metadata.Client
	transport *http.Transport
}

func newService(within time.Duration) *service {
	transport := &http.Transport{ // no proxy: the server is this machine's own
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return marked.Dial(ctx, network, address) // a machine that is a process has its metadata server on its host
		},
	}
	return &service{metadata.NewWithOptions(&metadata.Options{Client: &http.Client{Transport: transport, Timeout: within}}), transport}
}

func (s *service) close() { s.transport.CloseIdleConnections() }

// attribute returns an attribute that the machine was launched with; "" = none.
func (s *service) attribute(ctx context.Context, name string) (string, error) {
	text, err := s.client.GetWithContext(ctx, pathAttributes+name)
	if _, none := errors.AsType[metadata.NotDefinedError](err); none {
		return "", nil
	}
	return text, err
}

// Watch calls f for each notice that concerns this machine, until ctx is done, and then returns nil. It reports each
// notice once. No response from the server ends the watch. f is never called concurrently, nor after Watch has
// returned.
//
// It gets both values by long polls: the server answers when one changes.
func Watch(ctx context.Context, c Config, f func(provisioner.Notice)) error {
	w := &watcher{service: newService(cmp.Or(c.AnswerWithin, answerWithin)), config: c.withDefaults(), tell: f}
	defer w.service.close()
	var watching sync.WaitGroup
	watching.Go(func() { w.follow(ctx, pathPreempted, w.preempted) })
	watching.Go(func() { w.follow(ctx, pathMaintenance, w.maintenance) })
	watching.Wait()
	return nil
}

// watcher is the state of one Watch.
type watcher struct {
	service *service
	config  Config

	mu        sync.Mutex // held while tell runs
	tell      func(provisioner.Notice)
	warned    bool
	raised    bool
	complaint map[string]string // a path's last failure, so that it is reported once
}

// follow reports each value of a path, until ctx is done.
func (w *watcher) follow(ctx context.Context, path string, take func(context.Context, string) error) {
	for ctx.Err() == nil {
		err := w.service.client.SubscribeWithContext(ctx, path, func(ctx context.Context, value string, there bool) error {
			if !there {
				return nil
			}
			err := take(ctx, value)
			w.complain(ctx, path, err)
			return err
		})
		w.complain(ctx, path, err)
		timer := time.NewTimer(w.config.Pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (w *watcher) complain(ctx context.Context, path string, err error) {
	if ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.complaint == nil {
		w.complaint = map[string]string{}
	}
	if text != "" && text != w.complaint[path] {
		w.config.Report(fmt.Errorf("asking the metadata server: %w", err))
	}
	w.complaint[path] = text
}

// preempted handles "FALSE" and "TRUE". The server gives no time: the warning lasts as long as was requested at the
// launch.
func (w *watcher) preempted(ctx context.Context, value string) error {
	now := w.config.Clock.Now()
	switch value {
	case "FALSE":
		return nil
	case "TRUE":
	default:
		return fmt.Errorf("instance/preempted: %q is neither TRUE nor FALSE", shorten(value))
	}
	id, err := within(ctx, w.service.client.InstanceNameWithContext)
	if err != nil {
		return err
	}
	length := DefaultLength
	text, err := within(ctx, func(ctx context.Context) (string, error) { return w.service.attribute(ctx, AttributeNotice) })
	if err == nil {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			length = d
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.warned {
		w.warned = true
		w.tell(provisioner.Notice{Kind: provisioner.Eviction, ID: provisioner.InstanceID(id), Deadline: now.Add(w.config.Clock.ToMarket(length))})
	}
	return nil
}

// within requests a value without waiting for a change.
func within(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, valueWithin)
	defer cancel()
	return ask(ctx)
}

// maintenance handles "NONE", "MIGRATE_ON_HOST_MAINTENANCE" and "TERMINATE_ON_HOST_MAINTENANCE": the host will be
// maintained soon, so the machine pauses for a while or ends. That is a raised risk without a deadline.
func (w *watcher) maintenance(ctx context.Context, value string) error {
	if value == "NONE" || value == "" {
		return nil
	}
	id, err := within(ctx, w.service.client.InstanceNameWithContext)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.raised {
		w.raised = true
		w.tell(provisioner.Notice{Kind: provisioner.Rebalance, ID: provisioner.InstanceID(id)})
	}
	return nil
}

// shorten keeps a message readable, whatever the answer.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
