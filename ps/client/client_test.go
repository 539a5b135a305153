package client

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = ps.Schema{Tables: []ps.Table{{Name: "t", Rows: 10, Cols: 2}}, Partitions: 2, Splits: 2, Deterministic: true}

// script is a server that answers with scripted codes.
type script struct {
	codes []wire.PartitionStatus // one for each request; OK after the last
	asked []wire.Message
}

func (s *script) Call(_ context.Context, _ ps.Generation, request wire.Message) (wire.Message, error) {
	s.asked = append(s.asked, request)
	var next wire.PartitionStatus
	if len(s.codes) > 0 {
		next, s.codes = s.codes[0], s.codes[1:]
	}
	if next.Code == wire.Stale {
		return nil, &wire.Error{Code: wire.Stale}
	}
	ack := &wire.Ack{}
	if m, ok := request.(*wire.Contribute); ok {
		request = &m.Stage
	}
	switch m := request.(type) {
	case *wire.Stage:
		for _, p := range m.Partitions {
			ack.Partitions = append(ack.Partitions, wire.PartitionStatus{Partition: p.Partition, Code: next.Code, To: next.To})
		}
	case *wire.Commit:
		for _, p := range m.Partitions {
			ack.Partitions = append(ack.Partitions, wire.PartitionStatus{Partition: p, Code: next.Code, To: next.To})
		}
	}
	return ack, nil
}

func (s *script) types() (list []wire.Type) {
	for _, m := range s.asked {
		list = append(list, m.Type())
	}
	return list
}

func scripted(t *testing.T, servers map[ps.ServerID]*script) *Client {
	c := New(Config{Schema: schema, Local: func(id ps.ServerID) wire.Caller {
		if s := servers[id]; s != nil {
			return s
		}
		return nil
	}})
	t.Cleanup(c.Close)
	c.SetRoute(1, ps.Route{Version: 1, Owner: []ps.ServerID{"a", "a"}}, nil)
	return c
}

var wholeType, stageType, commitType = (&wire.Contribute{}).Type(), (&wire.Stage{}).Type(), (&wire.Commit{}).Type()

func code(c wire.Code) wire.PartitionStatus { return wire.PartitionStatus{Code: c} }

func TestContributeFollowsAnswers(t *testing.T) {
	moved := wire.PartitionStatus{Code: wire.Moved, To: "b"}
	for name, test := range map[string]struct {
		codes []wire.PartitionStatus
		a, b  []wire.Type
		err   error
	}{
		"at once":           {codes: []wire.PartitionStatus{code(wire.Committed)}, a: []wire.Type{wholeType}},
		"staged only":       {a: []wire.Type{wholeType, commitType}},
		"not ready":         {codes: []wire.PartitionStatus{code(wire.Retry)}, a: []wire.Type{wholeType, wholeType, commitType}},
		"owner replaced":    {codes: []wire.PartitionStatus{{}, code(wire.NotStaged)}, a: []wire.Type{wholeType, commitType, wholeType, commitType}},
		"moved":             {codes: []wire.PartitionStatus{moved}, a: []wire.Type{wholeType}, b: []wire.Type{wholeType, commitType}},
		"moved when staged": {codes: []wire.PartitionStatus{{}, moved}, a: []wire.Type{wholeType, commitType}, b: []wire.Type{commitType}},
		"stale":             {codes: []wire.PartitionStatus{code(wire.Stale)}, a: []wire.Type{wholeType}, err: ErrStale},
		"fenced":            {codes: []wire.PartitionStatus{code(wire.Fenced)}, a: []wire.Type{wholeType}, err: ErrFenced},
		"diverged":          {codes: []wire.PartitionStatus{{}, code(wire.Overflow)}, a: []wire.Type{wholeType, commitType}, err: ps.ErrOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := &script{codes: test.codes}, &script{}
			c := scripted(t, map[ps.ServerID]*script{"a": a, "b": b})
			err := c.Contribute(t.Context(), 1, 1, 1, 1, []ps.Split{1, 0}, nil)
			if !errors.Is(err, test.err) {
				t.Errorf("ends with %v, not %v", err, test.err)
			}
			if !slices.Equal(a.types(), test.a) || !slices.Equal(b.types(), test.b) {
				t.Errorf("asked %v and %v, not %v and %v", a.types(), b.types(), test.a, test.b)
			}
		})
	}
}

// If several servers take part, nothing is committed before all hold their part.
func TestContributeToSeveralServers(t *testing.T) {
	a, b := &script{}, &script{codes: []wire.PartitionStatus{code(wire.Retry)}}
	c := scripted(t, map[ps.ServerID]*script{"a": a, "b": b})
	c.SetRoute(1, ps.Route{Version: 2, Owner: []ps.ServerID{"a", "b"}}, nil)
	if err := c.Contribute(t.Context(), 1, 1, 1, 1, []ps.Split{0}, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.types(), []wire.Type{stageType, commitType}) ||
		!slices.Equal(b.types(), []wire.Type{stageType, stageType, commitType}) {
		t.Errorf("asked %v and %v", a.types(), b.types())
	}
}

// Every partition gets a request, with or without rows, and splits ascend.
func TestContributeAsksAllPartitions(t *testing.T) {
	a := &script{}
	c := scripted(t, map[ps.ServerID]*script{"a": a})
	if err := c.Contribute(t.Context(), 1, 1, 1, 1, []ps.Split{1, 0}, nil); err != nil {
		t.Fatal(err)
	}
	m := a.asked[0].(*wire.Contribute)
	if len(m.Partitions) != 2 || !slices.Equal(m.Splits, []ps.Split{0, 1}) {
		t.Errorf("staged %+v", m)
	}
}

func TestRefusesBeforeAsking(t *testing.T) {
	c := scripted(t, nil)
	key := ps.Key{Row: 3}
	wrong := (schema.PartitionOf(key) + 1) % 2
	for name, sums := range map[string][]PartitionSums{
		"another partition's row": {{Partition: wrong, Sums: ps.Sums{Keys: []ps.Key{key}, Fixed: make([]int64, 2)}}},
		"unknown partition":       {{Partition: 9}},
		"values missing":          {{Partition: 1 - wrong, Sums: ps.Sums{Keys: []ps.Key{key}}}},
	} {
		if err := c.Contribute(t.Context(), 1, 1, 1, 1, []ps.Split{0}, sums); !errors.Is(err, ps.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var rows Rows
	if err := c.Read(t.Context(), 1, 1, []ps.Key{{Row: 10}}, &rows); !errors.Is(err, ps.ErrInvalid) {
		t.Errorf("unknown row: %v", err)
	}
}

// panics is a server that panics once, and then does not answer.
type panics struct{ sync.Once }

func (p *panics) Call(ctx context.Context, _ ps.Generation, _ wire.Message) (wire.Message, error) {
	p.Do(func() { panic("broken") })
	<-ctx.Done()
	return nil, ctx.Err()
}

// A panic in a goroutine of the client's own is reported before it ends the process.
func TestPanicsAreReported(t *testing.T) {
	told := make(chan any, 2)
	local := map[ps.ServerID]wire.Caller{"a": &panics{}, "b": &script{}}
	c := New(Config{Schema: schema, Local: func(id ps.ServerID) wire.Caller { return local[id] }, Panicked: func(value any, _ []byte) {
		told <- value
		runtime.Goexit() // instead of ending the process
	}})
	defer c.Close()
	c.SetRoute(1, ps.Route{Version: 1, Owner: []ps.ServerID{"a", "b"}}, map[ps.ServerID]string{"a": "a", "b": "b"})
	ctx, cancel := context.WithCancel(t.Context())
	var contributing sync.WaitGroup
	contributing.Go(func() {
		_ = c.Contribute(ctx, 1, 1, 1, 1, []ps.Split{0, 1}, []PartitionSums{{Partition: 0}, {Partition: 1}})
	})
	if value := <-told; value != "broken" {
		t.Errorf("told of %v", value)
	}
	cancel()
	contributing.Wait()
}
