package server

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Handle answers one request of the data plane.
func (s *Server) Handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	answer := s.handle(ctx, generation, request)
	s.release(request, answer)
	return answer
}

// HandleNow answers reads and contributions that need not wait, so that they need no goroutine. It is not called concurrently for one
// connection.
func (s *Server) HandleNow(generation ps.Generation, request wire.Message) wire.Message {
	switch m := request.(type) {
	case *wire.Read:
		if answer := s.reads.lend(generation, m); answer != nil {
			wire.Release(request)
			return answer
		}
	case *wire.Stage, *wire.Contribute, *wire.Commit:
	default:
		return nil
	}
	answer := s.handle(noWait, generation, request)
	if answer == mustWait {
		return nil
	}
	s.release(request, answer)
	return answer
}

// noWait is the context of requests that are not to wait.
var noWait = context.WithValue(context.Background(), noWaitKey{}, true)

type noWaitKey struct{}

// mustWait is returned by handle if it would have to wait but must not.
var mustWait wire.Message = &wire.Error{Code: wire.Retry, Text: "it has to wait"}

// release frees a request's memory, unless a shard may keep some of it: of staged contributions, and in sparse tables also of committed
// ones.
func (s *Server) release(request, answer wire.Message) {
	if _, ok := request.(*wire.Contribute); ok {
		ack, ok := answer.(*wire.Ack)
		if !ok || s.sparse {
			return
		}
		for _, status := range ack.Partitions {
			if status.Code != wire.Committed {
				return
			}
		}
	}
	wire.Release(request)
}

func hasSparse(s *ps.Schema) bool {
	return slices.ContainsFunc(s.Tables, func(t ps.Table) bool { return t.Sparse })
}

// handle answers a request. With noWait it returns mustWait instead of waiting.
func (s *Server) handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	if refusal := s.refusal(generation); refusal != nil {
		return refusal
	}
	switch m := request.(type) {
	case *wire.Read:
		return s.reads.read(ctx, generation, m)
	case *wire.Stage:
		return s.stage(ctx, generation, m, true)
	case *wire.Contribute:
		return s.contribute(ctx, generation, m)
	case *wire.Commit:
		return s.commit(ctx, generation, m)
	case *wire.CutReady:
		return s.backups.cutReady(generation, m)
	case *wire.PullCut:
		return s.pullCut(ctx, generation, m)
	case *wire.MoveRows:
		return s.moveRows(generation, m)
	case *wire.MoveFinal:
		return s.moveFinal(generation, m)
	case *wire.MoveCancel:
		return s.moveCancel(generation, m)
	case *wire.MoveDone:
		return s.moveDone(generation, m)
	case *wire.MoveFill:
		return s.moveFill(generation, m)
	default:
		return &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("type %d is not a request", m.Type())}
	}
}

// Local lets a client in the same process make calls without a network.
func (s *Server) Local() wire.Caller { return local{s} }

type local struct{ *Server }

// Call answers like a connection would.
func (l local) Call(ctx context.Context, generation ps.Generation, request wire.Message) (wire.Message, error) {
	switch m := request.(type) { // they are kept, and the caller's arrays belong to the caller
	case *wire.Stage:
		request = m.Clone()
	case *wire.Contribute:
		request = &wire.Contribute{Stage: *m.Clone()}
	}
	answer := l.Handle(ctx, generation, request)
	switch m := answer.(type) {
	case *wire.Error:
		return nil, m
	case *wire.Delivery:
		answer = m.Own()
	}
	if err := ctx.Err(); err != nil {
		wire.Release(answer)
		return nil, err
	}
	return answer, nil
}

// stage holds the parts of a contribution until their commit. Given: its memory belongs to the shards.
func (s *Server) stage(ctx context.Context, generation ps.Generation, m *wire.Stage, given bool) wire.Message {
	ack := &wire.Ack{Partitions: make([]wire.PartitionStatus, 0, len(m.Partitions))}
	contributions := make([]ps.Contribution, len(m.Partitions)) // in one piece of memory
	var done func()
	if given {
		done = m.Share()
	}
	for i := range m.Partitions {
		part, contribution := &m.Partitions[i], &contributions[i]
		status, refusal := s.serve(ctx, generation, part.Partition, func(slot *slot) (wire.Code, bool) {
			*contribution = ps.Contribution{
				Incarnation: m.Incarnation,
				Sequence:    m.Sequence,
				Clock:       m.Clock,
				Splits:      m.Splits,
				Updates:     part.Sums,
				Given:       given,
				Done:        done,
			}
			began := s.now()
			committed, err := slot.shard.StagePiece(contribution, int(part.Piece), part.More)
			slot.serving.Took += s.now().Sub(began)
			if committed {
				return wire.Committed, false
			}
			s.logInvalid(slot, err)
			return wire.CodeOf(err), false
		})
		if refusal != nil {
			return refusal
		}
		ack.Partitions = append(ack.Partitions, status)
	}
	return ack
}

// contribute stages all parts of a contribution and, once all are staged, commits them. That is as atomic as a commit by the worker:
// whatever happens in between, every partition has its part staged.
func (s *Server) contribute(ctx context.Context, generation ps.Generation, m *wire.Contribute) wire.Message {
	answer := s.stage(ctx, generation, &m.Stage, false)
	staged, ok := answer.(*wire.Ack)
	if !ok {
		return answer
	}
	commit := wire.Commit{Incarnation: m.Incarnation, Sequence: m.Sequence}
	for i, status := range staged.Partitions {
		switch {
		case status.Code == wire.OK && m.Partitions[i].More:
			return staged
		case status.Code == wire.OK:
			commit.Partitions = append(commit.Partitions, status.Partition)
		case status.Code == wire.Committed:
		default:
			return staged
		}
	}
	answer = s.commit(ctx, generation, &commit)
	committed, ok := answer.(*wire.Ack)
	if !ok {
		return answer
	}
	at := 0
	for i, status := range staged.Partitions {
		if status.Code != wire.OK {
			continue
		}
		staged.Partitions[i] = committed.Partitions[at]
		if committed.Partitions[at].Code == wire.OK {
			staged.Partitions[i].Code = wire.Committed
		}
		at++
	}
	return staged
}

// foldApart is how many cells are worth folding on several threads: about a millisecond's work.
const foldApart = 1 << 20

// cellsOf returns the average number of stored cells in a partition, without sparse tables.
func cellsOf(s *ps.Schema) int {
	cells := uint64(0)
	for i := range s.Tables {
		if t := &s.Tables[i]; !t.Sparse {
			cells += t.Rows * uint64(t.Width())
		}
	}
	return int(cells / uint64(max(s.Partitions, 1)))
}

// commit makes staged contributions count. The last one of a clock folds it: large partitions are folded on several threads.
func (s *Server) commit(ctx context.Context, generation ps.Generation, m *wire.Commit) wire.Message {
	threads := 1
	if len(m.Partitions)*s.cells >= foldApart {
		threads = runtime.GOMAXPROCS(0)
	}
	ack := &wire.Ack{Partitions: make([]wire.PartitionStatus, len(m.Partitions))}
	outcomes := make([]struct {
		refusal *wire.Error
		passed  bool // the named cut
	}, len(m.Partitions))
	parallel.For(threads, len(m.Partitions), func(_, i int) {
		outcome := &outcomes[i]
		ack.Partitions[i], outcome.refusal = s.serve(ctx, generation, m.Partitions[i], func(slot *slot) (wire.Code, bool) {
			began, before := s.now(), slot.shard.Folded()
			folded, err := slot.shard.Commit(m.Incarnation, m.Sequence)
			slot.serving.Took += s.now().Sub(began)
			slot.serving.Clocks += int64(slot.shard.Folded() - before)
			if folded {
				slot.fold()
				outcome.passed = s.announcer.named != 0 && slot.shard.Passed(s.announcer.named)
			}
			s.logInvalid(slot, err)
			return wire.CodeOf(err), false
		})
	})
	passed, refusal := false, (*wire.Error)(nil)
	for _, outcome := range outcomes {
		passed = passed || outcome.passed
		refusal = cmp.Or(refusal, outcome.refusal)
	}
	if passed {
		s.announcer.notifyBackups()
	}
	if refusal != nil {
		return refusal
	}
	return ack
}

// logInvalid logs the details of an error whose sender only gets a code.
func (s *Server) logInvalid(slot *slot, err error) {
	if code := wire.CodeOf(err); code == wire.Invalid || code == wire.Overflow {
		s.said.Warn(s.log, "contribution refused", "partition", slot.id, "error", err)
	}
}
