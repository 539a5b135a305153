package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// Handle answers one request of the data plane.
func (s *Server) Handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	answer := s.handle(ctx, generation, request)
	s.release(request, answer)
	return answer
}

// HandleNow answers reads and contributions that need not wait, so that they cost no goroutine. It is not called for two
// requests of a connection at the same time.
func (s *Server) HandleNow(generation ps.Generation, request wire.Message) wire.Message {
	switch m := request.(type) {
	case *wire.Read:
		if answer := s.lend(generation, m); answer != nil {
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

// mustWait is what handle gives when it would have to wait, but is not to.
var mustWait wire.Message = &wire.Error{Code: wire.Retry, Text: "it has to wait"}

// release gives back a request's memory, unless a shard may keep some of it: of what is staged, and in sparse tables also
// of what is committed.
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

// handle answers a request. With noWait it gives mustWait in place of waiting.
func (s *Server) handle(ctx context.Context, generation ps.Generation, request wire.Message) wire.Message {
	if refusal := s.refusal(generation); refusal != nil {
		return refusal
	}
	switch m := request.(type) {
	case *wire.Read:
		return s.read(ctx, generation, m)
	case *wire.Stage:
		return s.stage(ctx, generation, m, true)
	case *wire.Contribute:
		return s.contribute(ctx, generation, m)
	case *wire.Commit:
		return s.commit(ctx, generation, m)
	case *wire.CutReady:
		return s.cutReady(generation, m)
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
	default:
		return &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("type %d is not a request", m.Type())}
	}
}

// Local lets a client in the same process ask without a network.
func (s *Server) Local() wire.Caller { return local{s} }

type local struct{ *Server }

// Call answers like a connection would.
func (l local) Call(ctx context.Context, generation ps.Generation, request wire.Message) (wire.Message, error) {
	switch m := request.(type) { // they are kept, and the caller's arrays are the caller's
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

// refusal says why a request of a generation is not served now; nil if it is.
func (s *Server) refusal(generation ps.Generation) *wire.Error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.admit(generation)
}

// admit is refusal for those who hold mu.
func (s *Server) admit(generation ps.Generation) *wire.Error {
	switch {
	case generation < s.generation:
		return &wire.Error{Code: wire.Stale, Text: fmt.Sprintf("generation %d; now it is %d", generation, s.generation)}
	case generation > s.generation || s.suspended || s.life.Err() != nil:
		return &wire.Error{Code: wire.Retry, Text: fmt.Sprintf("generation %d is not served yet", generation)}
	}
	return nil
}

// serve lets f work on a partition that is owned here. While f says that it must wait, and while the
// partition is leaving, it waits for a change; f is called again then. With noWait the refusal is mustWait.
func (s *Server) serve(ctx context.Context, generation ps.Generation, p ps.Partition,
	f func(*slot) (status wire.Code, wait bool),
) (wire.PartitionStatus, *wire.Error) {
	if int(p) >= len(s.slots) {
		return wire.PartitionStatus{Partition: p, Code: wire.Invalid}, nil
	}
	slot := s.slots[p]
	for {
		status, changed, epoch, refusal := s.try(slot, generation, f)
		if changed == nil || refusal != nil {
			return status, refusal
		}
		if ctx == noWait {
			return status, mustWait.(*wire.Error)
		}
		select {
		case <-changed:
		case <-epoch.Done():
		case <-ctx.Done():
			return wire.PartitionStatus{Partition: p, Code: wire.Retry}, nil
		}
	}
}

// try is one attempt of serve. It gives channels to wait for when another is needed.
func (s *Server) try(slot *slot, generation ps.Generation, f func(*slot) (wire.Code, bool)) (
	status wire.PartitionStatus, changed <-chan struct{}, epoch context.Context, refusal *wire.Error,
) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if refusal := s.admit(generation); refusal != nil {
		return status, nil, nil, refusal
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	switch slot.state {
	case absent:
		return slot.elsewhere(), nil, nil, nil
	case owned:
		if code, wait := f(slot); !wait {
			return wire.PartitionStatus{Partition: slot.id, Code: code}, nil, nil, nil
		}
	}
	return status, slot.wait(), s.epoch, nil
}

// read returns rows once all of them are fresh enough. No memory is claimed for them while it waits.
func (s *Server) read(ctx context.Context, generation ps.Generation, m *wire.Read) wire.Message {
	total, refusal := s.checkRead(m)
	if refusal != nil {
		return refusal
	}
	room := 4 * int64(total)
	for {
		if ctx == noWait {
			if !s.answers.TryAcquire(room) {
				return mustWait
			}
		} else {
			if refusal := s.awaitRead(ctx, generation, m); refusal != nil {
				return refusal
			}
			if ctx.Err() != nil || s.answers.Acquire(ctx, room) != nil {
				return &wire.Error{Code: wire.Retry, Text: "the request was given up"}
			}
		}
		rows := wire.NewRows(total)
		rows.Hold(s.answers, room)
		refusal := s.copyRows(generation, m, rows)
		if refusal == nil {
			return rows
		}
		rows.Release()
		if refusal != mustWait || ctx == noWait {
			return refusal
		}
	}
}

// awaitRead waits until each group can be read, or is elsewhere.
func (s *Server) awaitRead(ctx context.Context, generation ps.Generation, m *wire.Read) *wire.Error {
	for _, g := range m.Groups {
		_, refusal := s.serve(ctx, generation, g.Partition, func(slot *slot) (wire.Code, bool) {
			return wire.OK, !slot.shard.CanRead(m.Clock)
		})
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// copyRows copies what is there. When something is not, the refusal is mustWait.
func (s *Server) copyRows(generation ps.Generation, m *wire.Read, rows *wire.Rows) *wire.Error {
	rows.Groups = make([]wire.PartitionStatus, 0, len(m.Groups))
	rows.Stamps = make([]ps.Stamp, len(m.Groups))
	keys, filled := m.Keys, 0
	for i, g := range m.Groups {
		group := keys[:g.Keys]
		keys = keys[g.Keys:]
		status, refusal := s.serve(noWait, generation, g.Partition, func(slot *slot) (wire.Code, bool) {
			if !slot.shard.CanRead(m.Clock) {
				return 0, true
			}
			for _, k := range group {
				filled = s.readRow(slot.shard, k, m.Stored, rows.Values, filled)
			}
			rows.Stamps[i] = slot.shard.Stamp(m.Incarnation)
			return wire.OK, false
		})
		if refusal != nil {
			return refusal
		}
		rows.Groups = append(rows.Groups, status)
	}
	rows.Values = rows.Values[:filled]
	return nil
}

// readRow reads a row into values from filled on, as it travels, and says how far they are filled then.
func (s *Server) readRow(shard *ps.Shard, k ps.Key, stored bool, values []float32, filled int) int {
	table, cells, read := &s.schema.Tables[k.Table], s.schema.Cols(k), shard.Read
	if stored {
		cells, read = table.Width(), shard.Stored
	}
	if !table.Sparse {
		read(k, values[filled:filled+cells])
		return filled + cells
	}
	row := make([]float32, cells)
	read(k, row)
	return len(s.schema.AppendRow(values[:filled], k, row))
}

// checkRead says how many values a request asks for at most.
func (s *Server) checkRead(m *wire.Read) (values int, refusal *wire.Error) {
	keys := m.Keys
	if len(m.Groups) > len(s.slots) {
		return 0, &wire.Error{Code: wire.Invalid, Text: fmt.Sprintf("%d groups of %d partitions", len(m.Groups), len(s.slots))}
	}
	for _, g := range m.Groups {
		if g.Keys < 0 || g.Keys > len(keys) {
			return 0, &wire.Error{Code: wire.Invalid, Text: "groups of more keys than there are"}
		}
		n, err := s.schema.CheckKeys(g.Partition, keys[:g.Keys])
		if err != nil {
			return 0, &wire.Error{Code: wire.Invalid, Text: err.Error()}
		}
		values += n
		keys = keys[g.Keys:]
	}
	if len(keys) > 0 || values > wire.MaxBody/4-1024 {
		return 0, &wire.Error{Code: wire.Invalid, Text: "keys without a group, or more values than fit a frame"}
	}
	return values, nil
}

// stage holds the parts of a contribution until their commit. Given: its memory is the shards'.
func (s *Server) stage(ctx context.Context, generation ps.Generation, m *wire.Stage, given bool) wire.Message {
	ack := &wire.Ack{Partitions: make([]wire.PartitionStatus, 0, len(m.Partitions))}
	contributions := make([]ps.Contribution, len(m.Partitions)) // in one piece of memory
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
			}
			committed, err := slot.shard.StagePiece(contribution, int(part.Piece), part.More)
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

// contribute stages all parts of a contribution and, when all of them are staged, commits them. That is all or nothing as
// if the worker had committed: whatever happens in between, every partition has its part staged.
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

// commit makes what was staged count.
func (s *Server) commit(ctx context.Context, generation ps.Generation, m *wire.Commit) wire.Message {
	ack := &wire.Ack{Partitions: make([]wire.PartitionStatus, 0, len(m.Partitions))}
	passed := false
	for _, p := range m.Partitions {
		status, refusal := s.serve(ctx, generation, p, func(slot *slot) (wire.Code, bool) {
			folded, err := slot.shard.Commit(m.Incarnation, m.Sequence)
			if folded {
				slot.wake()
				passed = passed || s.cut != 0 && slot.shard.Passed(s.cut)
			}
			s.logInvalid(slot, err)
			return wire.CodeOf(err), false
		})
		if refusal != nil {
			return refusal
		}
		ack.Partitions = append(ack.Partitions, status)
	}
	if passed {
		s.tellBackups()
	}
	return ack
}

// logInvalid keeps the words for what its sender only gets a code of.
func (s *Server) logInvalid(slot *slot, err error) {
	if code := wire.CodeOf(err); code == wire.Invalid || code == wire.Overflow {
		s.said.Warn(s.log, "contribution refused", "partition", slot.id, "error", err)
	}
}
