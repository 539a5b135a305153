package node

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Bounds of a crash report to the controller.
const (
	mostReason = 500     // bytes
	mostStack  = 6 << 10 // bytes; the beginning counts
	mostLines  = 20      // of the log, where a stack counts as one; the end counts
)

// panicked is a panic as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guard turns a panic in f, which may be the application's, into an error: the rest of the agent lives long enough to report it.
func guard(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *parallel.Panic:
			err = &panicked{p.Value, p.Stack}
		case *panicked: // of another goroutine, which has ended
			err = p
		default:
			err = &panicked{p, debug.Stack()}
		}
	}()
	return f()
}

// task runs a part of the node's life. An error ends the node, after the controller receives the reason.
func (n *node) task(ctx context.Context, f func() error) {
	n.tasks.Go(func() error {
		err := guard(f)
		if err != nil && ctx.Err() == nil {
			n.explain(ctx, err)
		}
		return err
	})
}

// explain reports why the node ends, unless it was stopped or given up.
func (n *node) explain(ctx context.Context, err error) {
	for _, asked := range []error{errStopped, errAgain, errOrphan, ErrFenced} {
		if errors.Is(err, asked) {
			return
		}
	}
	reason, stack := clipped(strings.Join(strings.Fields(err.Error()), " "), mostReason), "" // one line
	if p, ok := errors.AsType[*panicked](err); ok {
		stack = clipped(string(p.stack), mostStack)
	}
	n.log.Error("the agent ends by itself", "error", reason)
	if stack != "" {
		fmt.Fprintln(&n.recent, stack) // with its line breaks
		n.cfg.Log.Error(stack)
	}
	if errors.Is(err, errUncomputable) || errors.Is(err, ps.ErrOverflow) {
		n.report(tiers.Failed{Error: reason})
	} else {
		n.report(tiers.Crashed{Error: reason, Log: n.recent.text()})
	}
	n.lastWords(ctx)
}

func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}

// tail keeps the last lines written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, clipped(strings.TrimSuffix(string(p), "\n"), mostStack))
	t.lines = slices.Delete(t.lines, 0, max(len(t.lines)-mostLines, 0))
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
