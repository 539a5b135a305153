package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/link"
	"github.com/tierml/tierml/tiers/node/wire"
)

// secured is what a world with TLS has in addition.
type secured struct {
	t         *testing.T
	dir       string
	authority *trust.Authority
	tokens    *trust.Tokens
	own       *trust.Credential
	log       *heardLog
}

// heardLog is a log that tests read while others write to it.
type heardLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *heardLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await waits for words in the log.
func (l *heardLog) await(t *testing.T, words string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q:\n%s", words, text)
		}
	}
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{t: t, dir: t.TempDir(), log: &heardLog{}}
	var err error
	if s.authority, err = trust.OpenAuthority(s.dir, trust.LeastLife, time.Now); err == nil {
		if s.tokens, err = trust.OpenTokens(s.dir, "secret", time.Now); err == nil {
			s.own, err = s.authority.Credential(trust.Controller, "toy")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.tokens.Close() })
	return s
}

func (s *secured) link(listener net.Listener) link.Config {
	log := s.nodeLog()
	return link.Config{Listener: trust.NewGate(listener, s.authority, s.tokens, s.own, nil, log), TLS: true, Log: log,
		Accept: func(tiers.Hello) error { return nil }}
}

func (s *secured) nodeLog() *slog.Logger {
	if s == nil {
		return quiet()
	}
	return slog.New(slog.NewTextHandler(s.log, nil))
}

// readerTLS is for the controller as a reader of the model.
func (s *secured) readerTLS() *tls.Config {
	if s == nil {
		return nil
	}
	return s.own.Config(trust.Machine)
}

// credential returns a machine's credential, signed by the authority.
func (s *secured) credential(role trust.Role, name string) *trust.Credential {
	s.t.Helper()
	c, err := s.authority.Credential(role, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// expired returns a machine's certificate that has expired.
func (s *secured) expired() *tls.Config {
	s.t.Helper()
	old, err := trust.OpenAuthority(s.dir, trust.LeastLife, func() time.Time { return time.Now().Add(-24 * time.Hour) })
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := old.Credential(trust.Machine, "i-1")
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Config(trust.Machine)
}

// strangers try the ports of a run: the data plane of a machine, at data, and the controller's.
func strangers(t *testing.T, w *world, data string) {
	s, foreign := w.secured, newSecured(t)
	roots := s.own.Config(trust.Machine).RootCAs
	as := func(c *tls.Config) *tls.Config { // accepts any of our machines as the peer
		c.RootCAs, c.ServerName, c.Time = roots, string(trust.Machine), nil
		c.VerifyConnection = nil
		return c
	}
	valid := s.credential(trust.Machine, "i-9")
	refusal := knock(t, data, as(valid.Config(trust.Machine)), bytes.Repeat([]byte{0xa5}, 4096)) // a frame of this version
	for _, stranger := range []struct {
		name   string
		config *tls.Config // nil: none
		frame  []byte
		logged string
	}{
		{"plaintext", nil, bytes.Repeat([]byte("TML"), 20), "first record does not look like a TLS handshake"},
		{"an oversized record", nil, append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 0xffff)...), "oversized record"},
		{"no certificate", as(&tls.Config{}), nil, "didn't provide a certificate"},
		{"another run's certificate", as(foreign.credential(trust.Machine, "i-1").Config(trust.Machine)), nil, "unknown authority"},
		{"an expired certificate", as(s.expired()), nil, "certificate has expired"},
		{"garbage in TLS", as(valid.Config(trust.Machine)), bytes.Repeat([]byte{0xa5}, 4096), "another protocol or version"},
		{"an oversized frame", as(valid.Config(trust.Machine)), oversizedFrame(t, refusal), "is longer than"},
	} {
		t.Run("data plane/"+stranger.name, func(t *testing.T) {
			if answer := knock(t, data, stranger.config, stranger.frame); bytes.Contains(answer, []byte("TML")) && stranger.frame == nil {
				t.Errorf("it was answered: %q", answer)
			}
			s.log.await(t, stranger.logged)
		})
	}
	for _, stranger := range []struct {
		name, logged string
		credentials  credentials.TransportCredentials
		code         codes.Code
	}{
		{"plaintext", "first record does not look like a TLS handshake", insecure.NewCredentials(), codes.Unavailable},
		{"another run's certificate", "unknown authority",
			credentials.NewTLS(withRoots(foreign.credential(trust.Machine, "i-1").Config(trust.Controller), s)), codes.Unavailable},
		{"in the name of another machine", "i-9 says that it is i-1", credentials.NewTLS(valid.Config(trust.Controller)), codes.PermissionDenied},
	} {
		t.Run("control plane/"+stranger.name, func(t *testing.T) {
			if err := hello(t, w.listener.Addr().String(), stranger.credentials, "i-1"); status.Code(err) != stranger.code {
				t.Errorf("%v; want %v", err, stranger.code)
			}
			s.log.await(t, stranger.logged)
		})
	}
}

func withRoots(c *tls.Config, s *secured) *tls.Config {
	c.RootCAs, c.VerifyConnection = s.own.Config(trust.Machine).RootCAs, nil
	return c
}

// oversizedFrame returns the header of a body above the limit, as ps/wire/README.md defines it.
func oversizedFrame(t *testing.T, like []byte) []byte {
	if len(like) < 4 {
		t.Fatalf("garbage was answered by %q", like)
	}
	b := make([]byte, 40)
	copy(b, like[:4])
	b[4] = 3
	binary.LittleEndian.PutUint64(b[8:], 1)
	binary.LittleEndian.PutUint64(b[16:], JobNumber("toy"))
	binary.LittleEndian.PutUint32(b[32:], 64<<20+8)
	binary.LittleEndian.PutUint32(b[36:], crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// knock connects, sends something and returns what comes back before the other end hangs up.
func knock(t *testing.T, address string, config *tls.Config, say []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if config != nil {
		conn = tls.Client(conn, config)
	}
	_, _ = conn.Write(say) // the other end may have hung up
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := io.ReadAll(conn)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Error("the connection stays")
	}
	return answer
}

// hello begins a stream as a machine.
func hello(t *testing.T, address string, c credentials.TransportCredentials, name string) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := pb.NewControlClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	m, err := wire.EncodeReport(tiers.Hello{Token: testToken, Instance: ps.ServerID(name)})
	if err != nil {
		t.Fatal(err)
	}
	m.Process = "a stranger"
	_ = stream.Send(m) // Recv returns the reason
	_, err = stream.Recv()
	return err
}

// Without TLS nothing listens on addresses that other hosts can reach.
func TestPlaintextStaysOnThisHost(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const words = "without TLS is refused"
	_, err = link.Listen(t.Context(), link.Config{Listener: listener, Accept: func(tiers.Hello) error { return nil }, Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("the control plane: %v", err)
	}
	m := &machine{id: "i-1", user: UserData{Controller: "127.0.0.1:1", Token: "t", Job: "j", Listen: "0.0.0.0:0"}, w: &world{}}
	if err := Run(t.Context(), m.simulated()); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("the data plane: %v", err)
	}
}

// A machine that the controller does not know says so and ends, instead of retrying forever.
func TestAMachineThatIsRefusedEnds(t *testing.T) {
	real(t, newSecured(t), func(t *testing.T, w *world) {
		m := w.start("i-1", func(m *machine) { m.user.Token = "another" })
		<-m.ended
		if m.outcome == nil || !strings.Contains(m.outcome.Error(), "did not issue that token") {
			t.Errorf("it ended with %v", m.outcome)
		}
	})
}
