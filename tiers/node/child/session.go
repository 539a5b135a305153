package child

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/tierml/tierml/apps"
)

// Each message is one line of JSON. Version grows when an older program would misunderstand a message.
const (
	version     = 2
	mostHello   = 16 << 20
	mostMessage = 64 << 10

	typeHello   = "hello"   // the program, first
	typeWelcome = "welcome" // the agent, with the file descriptor of the shared memory
	typePull    = "pull"    // the program is ready for a round
	typeRound   = "round"   // the agent: the rows are in the memory
	typePush    = "push"    // the program: the delta is in the memory
	typeBye     = "bye"     // either: the conversation ends, and why
)

// message is any of the six.
type message struct {
	Type string `json:"type"`

	// Of hello.
	Version   int      `json:"version,omitempty"`
	Every     int      `json:"every,omitempty"`
	Rate      float64  `json:"rate,omitempty"`
	Momentum  *float64 `json:"momentum,omitempty"`
	Transport string   `json:"transport,omitempty"`
	Total     int      `json:"total,omitempty"` // steps; 0 = the job decides
	Tensors   []Tensor `json:"tensors,omitempty"`
	Digest    string   `json:"digest,omitempty"` // of the model's initial floats

	// Of welcome.
	Job     *apps.Terms `json:"job,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"`   // of the memory
	Row     int         `json:"row,omitempty"`     // floats of the model in a row of it
	Initial string      `json:"initial,omitempty"` // file to write the initial model to

	// For round and push.
	Round   int64   `json:"round,omitempty"`
	Number  uint64  `json:"number,omitempty"` // of the order: a push has its round's number
	Replica int     `json:"replica"`
	First   int     `json:"first"`
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss,omitempty"`
	Losses  int     `json:"losses,omitempty"`

	// Of bye.
	Why string `json:"why,omitempty"`
}

// Tensor is a trained tensor. Its floats follow those of the previous tensor.
type Tensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

// floats returns a tensor's size; -1: its shape is invalid.
func (t Tensor) floats() int {
	n := 1
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > (1<<40)/d {
			return -1
		}
		n *= d
	}
	return n
}

// session is one connection of the program.
type session struct {
	conn    *net.UnixConn
	read    *bufio.Reader
	memory  *memory
	floats  int
	tensors []Tensor
	attempt uint64 // of the program
	ends    sync.Once

	// Guarded by the Child's mu.
	pulled bool // the program waits for a round, or works on one
	order  *apps.Order
	number uint64 // of the last order
	began  time.Time
	pushed *apps.Delivery
}

func (s *session) close() { s.ends.Do(func() { _ = s.conn.Close() }) } // further messages do not matter

func (s *session) write(m message) error { return s.send(m, nil) }

// send sends a message, along with a file unless that is nil.
func (s *session) send(m message, file *os.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)) // the program reads when it has time: a line fits the socket's buffer
	_, _, err = s.conn.WriteMsgUnix(append(text, '\n'), rights, nil)
	return err
}

// next reads a message.
func (s *session) next(most int) (m message, err error) {
	line, err := readLine(s.read, most)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("the program sent %q, which is no message (%w)", clip(line), err)
	}
	return m, nil
}

func readLine(r *bufio.Reader, most int) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, fmt.Errorf("the program sent a message of more than %d bytes", most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(line) > 0 {
				return nil, fmt.Errorf("the program closed the socket within a message: %q", clip(line))
			}
			return nil, err
		}
	}
}

func clip(line []byte) []byte { return bytes.TrimSpace(line[:min(len(line), 80)]) }

// tensorAt names the tensor that a float of the model belongs to.
func (s *session) tensorAt(i int) string {
	for _, t := range s.tensors {
		if i -= t.floats(); i < 0 {
			return t.Name
		}
	}
	return "?"
}

// accept serves connections, one after another.
func (c *Child) accept() {
	var each sync.WaitGroup
	defer each.Wait()
	for {
		conn, err := c.listen.AcceptUnix()
		if err != nil {
			return // closed
		}
		each.Go(func() {
			defer conn.Close()
			c.serve(&session{conn: conn, read: bufio.NewReader(conn), attempt: c.present()})
		})
	}
}

// serve serves one connection.
func (c *Child) serve(s *session) {
	err := c.greet(s)
	if err == nil {
		err = c.hear(s)
	} else {
		_ = s.write(message{Type: typeBye, Why: err.Error()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == s {
		c.session = nil
		if s.order != nil && s.pushed == nil {
			c.closed = time.Now()
		}
		c.change()
	}
	if expected := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, errSecond); err != nil && !expected && s.attempt == c.attempt &&
		!c.over && c.broken == "" {
		c.broken = err.Error()
		select {
		case c.faulty <- struct{}{}:
		default:
		}
	}
}

var errSecond = errors.New("this program has a tierml.DiLoCo context already: use one for all parameters")

// greet receives the hello, and answers it.
func (c *Child) greet(s *session) error {
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Minute))
	m, err := s.next(mostHello)
	if err != nil {
		return err
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	if m.Type != typeHello {
		return fmt.Errorf("the program's first message is %q and should be hello", m.Type)
	}
	if err := c.agree(&m); err != nil {
		return err
	}
	s.tensors = m.Tensors
	for _, t := range m.Tensors {
		s.floats += t.floats()
	}
	c.mu.Lock()
	second := c.session != nil
	if !second {
		c.session, c.closed = s, time.Time{}
	}
	c.mu.Unlock()
	if second {
		return errSecond
	}
	if c.memory == nil || c.memory.floats != s.floats {
		if c.memory, err = newMemory(s.floats, c.cfg.Terms.Row(), c.cfg.Log); err != nil {
			return err
		}
	}
	s.memory = c.memory
	welcome := message{Type: typeWelcome, Job: &c.cfg.Terms, Bytes: s.memory.bytes(), Row: s.memory.row}
	known, err := c.known()
	if err != nil {
		return err
	}
	if known == nil {
		welcome.Initial = filepath.Join(c.dir, "initial.safetensors")
	} else if err := known.differs(&m); err != nil {
		return err
	}
	if err := s.send(welcome, s.memory.file); err != nil {
		return fmt.Errorf("answering the program: %w", err)
	}
	return c.introduce(s, &m, welcome.Initial)
}

// introduce waits for the program to be ready. The first machine stores the initial model for the others, and for the export.
func (c *Child) introduce(s *session, hello *message, initial string) error {
	m, err := s.next(mostMessage)
	if err != nil {
		return err
	}
	if m.Type == typeBye {
		return io.EOF // its exit code and output say why
	}
	if m.Type != typePull {
		return fmt.Errorf("the program sent %q and should have sent pull", m.Type)
	}
	if initial != "" {
		if err := c.keep(hello, initial); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.pulled, c.entered = true, true
	c.change()
	return nil
}

// agree refuses a hello that does not suit the job.
func (c *Child) agree(m *message) error {
	t := &c.cfg.Terms
	floats := 0
	for _, tensor := range m.Tensors {
		n := tensor.floats()
		if n < 0 || tensor.Name == "" {
			return fmt.Errorf("tensor %q has the shape %v, which is none", tensor.Name, tensor.Shape)
		}
		floats += n
	}
	momentum := t.Momentum
	if m.Momentum != nil {
		momentum = *m.Momentum
	}
	differs := func(name string, script, job any) error {
		return fmt.Errorf("the script says %s=%v and the job file %v: make them equal, or leave it out of the script", name, script, job)
	}
	switch {
	case m.Version != version:
		return fmt.Errorf("the program speaks version %d of the protocol and this agent %d: use the tierml package that machines have (PYTHONPATH)", m.Version, version)
	case m.Every != 0 && m.Every != t.Every:
		return differs("every", m.Every, t.Every)
	case m.Rate != 0 && m.Rate != t.Rate:
		return differs("rate", m.Rate, t.Rate)
	case momentum != t.Momentum:
		return differs("momentum", momentum, t.Momentum)
	case m.Transport != "" && m.Transport != t.Transport:
		return differs("transport", m.Transport, t.Transport)
	case m.Total != 0 && m.Total != t.Steps:
		return fmt.Errorf("the script asks for steps(%d) and the job file has progress: {of: %d}: make them equal, or write steps()", m.Total, t.Steps)
	case floats == 0:
		return errors.New("the model has no floating-point parameters")
	case floats > t.Floats:
		return fmt.Errorf("the model has %d parameters and float buffers, and the job file's tiers.parameters is %d: write parameters: %d or more", floats, t.Floats, floats)
	case len(m.Digest) != 2*sha256.Size:
		return errors.New("the hello has no digest of the model as it begins")
	}
	return nil
}

// hear handles a session's messages until it ends.
func (c *Child) hear(s *session) error {
	for {
		m, err := s.next(mostMessage)
		if err != nil {
			return err
		}
		switch m.Type {
		case typePush:
			err = c.takePush(s, &m)
		case typePull:
			err = c.takePull(s)
		case typeBye:
			return io.EOF
		default:
			err = fmt.Errorf("the program sent %q, which it may not now", m.Type)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Child) takePush(s *session, m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := s.order
	switch {
	case o == nil || s.pushed != nil:
		return errors.New("the program pushed a round that it was not given")
	case m.Number != s.number || m.Round != int64(o.Clock):
		return fmt.Errorf("the program pushed round %d (order %d) and was given round %d (order %d)", m.Round, m.Number, o.Clock, s.number)
	case m.Steps < 0 || m.Steps > o.Steps || m.Losses < 0:
		return fmt.Errorf("the program pushed %d steps of a round of %d", m.Steps, o.Steps)
	}
	s.pushed = &apps.Delivery{Steps: m.Steps, Loss: m.Loss, Losses: m.Losses}
	c.change()
	return nil
}

// takePull makes the session ready for the next order. A session that Round has left ends with its push.
func (c *Child) takePull(s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.order != nil && s.pushed == nil {
		return errors.New("the program requested another round within one")
	}
	s.order = nil
	c.change()
	return nil
}

// kept is the first program's description of the model, for the others and for the export.
type kept struct {
	Version int      `json:"version"`
	Digest  string   `json:"digest"`
	Tensors []Tensor `json:"tensors"`
}

// differs returns the first difference of another program's model.
func (k *kept) differs(m *message) error {
	for i, t := range k.Tensors {
		if i >= len(m.Tensors) {
			return fmt.Errorf("this machine's model ends before tensor %s of %v, which the first machine's has: all must build the same model", t.Name, t.Shape)
		}
		if o := m.Tensors[i]; o.Name != t.Name || o.Type != t.Type || !slices.Equal(o.Shape, t.Shape) {
			return fmt.Errorf("tensor %d is %s %s%v on this machine and %s %s%v on the first: all must build the same model, also after --resume",
				i+1, o.Name, o.Type, o.Shape, t.Name, t.Type, t.Shape)
		}
	}
	if len(m.Tensors) > len(k.Tensors) {
		o := m.Tensors[len(k.Tensors)]
		return fmt.Errorf("this machine's model has tensor %s of %v, which the first machine's has not: all must build the same model", o.Name, o.Shape)
	}
	if m.Digest != k.Digest {
		return errors.New("this machine's model begins with other values than the first machine's: seed it alike everywhere, such as by torch.manual_seed(1), or load the same file")
	}
	return nil
}

var seed = maphash.MakeSeed()

// checksum hashes floats, for use in this process.
func checksum(values []float32) uint64 {
	return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values)))
}

// fileDigest returns the digest of a file's contents.
func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
