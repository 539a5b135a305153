package wire

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/ps"
)

// Type identifies the message in a frame. The numbers are part of the protocol.
type Type uint8

const (
	typeError       Type = 1
	typeAck         Type = 2
	typeRead        Type = 3
	typeRows        Type = 4
	typeStage       Type = 5
	typeCommit      Type = 6
	typeCutReady    Type = 7
	typePullCut     Type = 8
	typeDelivery    Type = 9
	typeDeliveryEnd Type = 10
	typeMoveRows    Type = 11
	typeMoveFinal   Type = 12
	typeMoveCancel  Type = 13
	typeReadStored  Type = 14
	typeContribute  Type = 15
	typeMoveDone    Type = 16
	typeMoveFill    Type = 17
	typeMoveWanted  Type = 18
)

// Message is one of the structs of this package with a Type. Those with a Release method are in pooled memory.
type Message interface {
	Type() Type
	encode(e *encoder)
	decode(d *decoder)
}

// holder is a message that uses its frame's memory until it is released.
type holder interface{ hold(*Buffer) }

// kept reports whether the receiver keeps the message's contents, so that its memory is not pooled.
func (t Type) kept() bool { return t == typeStage || t == typeMoveFinal || t == typeDelivery }

// isRequest reports whether a server answers messages of the type.
func (t Type) isRequest() bool {
	switch t {
	case typeRead, typeReadStored, typeStage, typeContribute, typeCommit, typeCutReady, typePullCut, typeMoveRows, typeMoveFinal, typeMoveCancel, typeMoveDone,
		typeMoveFill:
		return true
	}
	return false
}

func newMessage(t Type) Message {
	switch t {
	case typeError:
		return new(Error)
	case typeAck:
		return new(Ack)
	case typeRead:
		return newRead(false)
	case typeReadStored:
		return newRead(true)
	case typeRows:
		return new(Rows)
	case typeStage:
		return new(Stage)
	case typeCommit:
		return new(Commit)
	case typeCutReady:
		return new(CutReady)
	case typePullCut:
		return new(PullCut)
	case typeDelivery:
		return new(Delivery)
	case typeDeliveryEnd:
		return new(DeliveryEnd)
	case typeMoveRows:
		return new(MoveRows)
	case typeMoveFinal:
		return new(MoveFinal)
	case typeMoveCancel:
		return new(MoveCancel)
	case typeMoveDone:
		return new(MoveDone)
	case typeMoveFill:
		return new(MoveFill)
	case typeMoveWanted:
		return new(MoveWanted)
	case typeContribute:
		return newContribute()
	}
	return nil
}

// decode reads a body. The message takes ownership of the body: it is released with the message, or at once if the message does not need
// it.
func decode(t Type, body *Buffer) (Message, error) {
	m := newMessage(t)
	if m == nil {
		body.Release()
		return nil, refused("unknown message type %d", t)
	}
	d := decoder{rest: body.Bytes()}
	m.decode(&d)
	if d.bad || len(d.rest) > 0 {
		body.Release()
		return nil, refused("the body of a message of type %d is damaged", t)
	}
	switch h := m.(type) {
	case holder:
		h.hold(body)
	default:
		if !t.kept() {
			body.Release()
		}
	}
	return m, nil
}

// Release frees the pooled memory of a message, if it has any. Its arrays must not be used afterwards.
func Release(m Message) {
	if r, ok := m.(interface{ Release() }); ok {
		r.Release()
	}
}

// PartitionStatus is the outcome of a request for one partition.
type PartitionStatus struct {
	Partition ps.Partition
	Code      Code
	To        ps.ServerID // for Moved: the partition's present owner
	Address   string      // and its address
}

func (e *encoder) statuses(statuses []PartitionStatus) {
	e.u64(uint64(len(statuses)))
	for i := range statuses {
		s := &statuses[i]
		e.u32s(uint32(s.Partition), uint32(s.Code))
		if s.Code == Moved {
			e.string(string(s.To))
			e.string(s.Address)
		}
	}
}

func (d *decoder) statuses() []PartitionStatus {
	n := d.listed(8, ps.MaxPartitions)
	if n == 0 {
		return nil
	}
	statuses := make([]PartitionStatus, n)
	for i := range statuses {
		s := &statuses[i]
		partition, code := d.u32s()
		s.Partition, s.Code = ps.Partition(partition), Code(code)
		if s.Code == Moved {
			s.To = ps.ServerID(d.string())
			s.Address = d.string()
		}
	}
	return statuses
}

// Ack answers every request except Read and PullCut.
type Ack struct{ Partitions []PartitionStatus }

func (*Ack) Type() Type          { return typeAck }
func (m *Ack) encode(e *encoder) { e.statuses(m.Partitions) }
func (m *Ack) decode(d *decoder) { m.Partitions = d.statuses() }

// Error refuses a whole request or, with request 0, the connection.
type Error struct {
	Code Code
	Text string
}

func (*Error) Type() Type { return typeError }

func (m *Error) encode(e *encoder) {
	e.u64(uint64(m.Code))
	e.string(m.Text[:min(len(m.Text), longestString)])
}

func (m *Error) decode(d *decoder) {
	code := d.u64()
	d.bad = d.bad || code > math.MaxUint32
	m.Code = Code(code)
	m.Text = d.string()
}

// Error makes it an error.
func (m *Error) Error() string {
	if m.Text == "" {
		return m.Code.String()
	}
	return fmt.Sprintf("%s: %s", m.Code, m.Text)
}

// Unwrap lets errors.Is distinguish codes.
func (m *Error) Unwrap() error { return m.Code.Err() }
