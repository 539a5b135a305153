package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

// Protocols that a connection to the gate may request (ALPN).
const (
	joinProtocol = "tierml-join/1"
	grpcProtocol = "h2"
)

const (
	// atOnce limits the unauthenticated connections; more are closed unheard.
	atOnce = 256
	// patience bounds the time of such a connection.
	patience = 10 * time.Second
	// longestJoin limits the size of a join request in bytes: a token, a name and a certificate request of some hundred.
	longestJoin = 8 << 10
	// longestAnswer limits the size of a controller's answer: AWS session tokens have some thousand bytes.
	longestAnswer = 64 << 10
)

// joinRequest is sent to get a certificate: first with the token, later with the current certificate.
type joinRequest struct {
	Token   string `json:"token,omitempty"`
	Machine string `json:"machine"`
	Request []byte `json:"request"` // PKCS #10, DER
}

// joinAnswer is a certificate, or the reason for a refusal.
type joinAnswer struct {
	Certificate []byte          `json:"certificate,omitempty"`
	Grant       json.RawMessage `json:"grant,omitempty"`   // what the run's machines get with it; absent = they keep what they have
	Renew       time.Duration   `json:"renew,omitempty"`   // when to request another
	Refused     string          `json:"refused,omitempty"` // why there is no certificate
}

// Grant returns what every machine of the run gets with its certificate, and how long it remains valid.
type Grant func(ctx context.Context) (text json.RawMessage, life time.Duration, err error)

// Gate is a listener that passes on only connections from machines of the run. It signs the certificates of machines that join.
type Gate struct {
	inner     net.Listener
	authority *Authority
	tokens    *Tokens
	own       *Credential
	grant     Grant
	log       *slog.Logger

	passed chan net.Conn
	quiet  loglimit.Limit
	slots  chan struct{}
	ctx    context.Context
	end    context.CancelFunc
	tasks  sync.WaitGroup
}

// NewGate takes over a listener. Close must be called; it closes the listener but not the tokens. Without a grant, machines get only
// certificates.
func NewGate(inner net.Listener, authority *Authority, tokens *Tokens, own *Credential, grant Grant, log *slog.Logger) *Gate {
	g := &Gate{inner: inner, authority: authority, tokens: tokens, own: own, grant: grant, log: log,
		passed: make(chan net.Conn), slots: make(chan struct{}, atOnce)}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.tasks.Go(g.accept)
	return g
}

// Addr returns the listener's address.
func (g *Gate) Addr() net.Addr { return g.inner.Addr() }

// Close ends the listener and every connection that was not passed on.
func (g *Gate) Close() error {
	g.end()
	err := g.inner.Close()
	g.tasks.Wait()
	return err
}

// Accept returns a connection, a *tls.Conn, of a machine of the run.
func (g *Gate) Accept() (net.Conn, error) {
	select {
	case conn := <-g.passed:
		return conn, nil
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (g *Gate) accept() {
	for pause := time.Millisecond; ; {
		conn, err := g.inner.Accept()
		if g.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil { // out of file descriptors, for example: others may end
			g.log.Warn("cannot accept a connection", "error", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-g.ctx.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		select {
		case g.slots <- struct{}{}:
		default:
			g.refuse(conn, errTooMany)
			continue
		}
		g.tasks.Go(func() { g.meet(conn) })
	}
}

// meet identifies a client.
func (g *Gate) meet(raw net.Conn) {
	_ = raw.SetDeadline(time.Now().Add(patience))
	conn := tls.Server(raw, g.config())
	err := conn.HandshakeContext(g.ctx)
	joins := err == nil && conn.ConnectionState().NegotiatedProtocol == joinProtocol
	if joins {
		stop := context.AfterFunc(g.ctx, func() { _ = raw.Close() })
		err = g.join(conn)
		stop()
	}
	<-g.slots
	switch {
	case err != nil:
		g.refuse(conn, err)
	case joins:
		_ = conn.Close()
	default:
		_ = raw.SetDeadline(time.Time{})
		select {
		case g.passed <- conn:
		case <-g.ctx.Done():
			_ = conn.Close()
		}
	}
}

var errTooMany = errors.New("too many others have not shown yet who they are")

// refuse closes a connection and logs the reason.
func (g *Gate) refuse(conn net.Conn, why error) {
	_ = conn.Close()
	g.quiet.Warn(g.log, "refused a connection", "from", conn.RemoteAddr(), "error", why)
}

// config requires a certificate from all clients except those that announce that they want to join; theirs is optional.
func (g *Gate) config() *tls.Config {
	strict := g.own.Config(Machine)
	strict.NextProtos = []string{grpcProtocol}
	joining := strict.Clone()
	joining.NextProtos = []string{joinProtocol}
	joining.ClientAuth = tls.VerifyClientCertIfGiven
	joining.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return permitted(s, []Role{Machine})
	}
	strict.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, joinProtocol) {
			return joining, nil
		}
		if !slices.Contains(hello.SupportedProtos, grpcProtocol) {
			return nil, errors.New("it speaks another protocol")
		}
		return nil, nil
	}
	return strict
}

// join answers one certificate request.
func (g *Gate) join(conn *tls.Conn) error {
	var request joinRequest
	if err := json.NewDecoder(io.LimitReader(conn, longestJoin)).Decode(&request); err != nil {
		return fmt.Errorf("reading a request to join: %w", err)
	}
	var answer joinAnswer
	der, err := g.admit(conn.ConnectionState(), request)
	if answer.Certificate = der; err != nil {
		answer.Refused = err.Error()
		err = fmt.Errorf("%q may not join: %w", brief(request.Machine), err)
	} else if err := g.addGrant(&answer); err != nil && request.Token != "" { // a machine that renews still has a grant
		return fmt.Errorf("%q joins later: %w", brief(request.Machine), err)
	} else {
		g.log.Info("signed a certificate", "machine", request.Machine, "with_token", request.Token != "", "from", conn.RemoteAddr())
	}
	return errors.Join(err, json.NewEncoder(conn).Encode(answer))
}

// addGrant adds the run's grant to an answer.
func (g *Gate) addGrant(answer *joinAnswer) error {
	if g.grant == nil {
		return nil
	}
	text, life, err := g.grant(g.ctx)
	if err != nil {
		g.quiet.Warn(g.log, "machines of the run get no credentials", "error", err)
		return err
	}
	answer.Grant, answer.Renew = text, life/2
	return nil
}

// admit signs a certificate for callers that are entitled to one.
func (g *Gate) admit(s tls.ConnectionState, r joinRequest) ([]byte, error) {
	csr, err := x509.ParseCertificateRequest(r.Request)
	if err == nil {
		err = csr.CheckSignature() // it has the private key
	}
	if err != nil {
		return nil, fmt.Errorf("its request: %w", err)
	}
	if r.Machine == "" || len(r.Machine) > 64 {
		return nil, errors.New("it has no name, or a long one")
	}
	if len(s.PeerCertificates) > 0 {
		leaf := s.PeerCertificates[0]
		if leaf.Subject.CommonName != r.Machine || digest(leaf.RawSubjectPublicKeyInfo) != digest(csr.RawSubjectPublicKeyInfo) {
			return nil, fmt.Errorf("it has the certificate of %s", leaf.Subject.CommonName)
		}
	} else if err := g.tokens.spend(r.Token, r.Machine, csr.RawSubjectPublicKeyInfo); err != nil {
		return nil, err
	}
	return g.authority.issue(Machine, r.Machine, csr.PublicKey)
}

// brief shortens what clients send for the log.
func brief(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
