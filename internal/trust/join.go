package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/tierml/tierml/internal/atomicfile"
)

// ErrRefused: the controller rejects this machine; retrying is useless.
var ErrRefused = errors.New("the controller refuses this machine")

// Joining is how a machine gets its certificates.
type Joining struct {
	Address   string // the controller's
	Dial      func(ctx context.Context, address string) (net.Conn, error)
	Authority string // its hash, from the user data
	Token     string // from the user data
	Machine   string
	// KeyFile keeps the machine's private key for the next process: without it, a restarted one is refused, as its token is bound to the
	// previous key. Empty = memory only.
	KeyFile string
	Now     func() time.Time
}

// Join creates a key, or continues with the one in KeyFile, and requests a certificate from the controller once. An error other than
// ErrRefused may be temporary.
func (j Joining) Join(ctx context.Context) (*Credential, error) {
	key, err := j.openKey()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	c := &Credential{key: key, now: j.Now}
	return c, j.Renew(ctx, c)
}

// Insist retries Join until it gets an answer or ctx is done.
func (j Joining) Insist(ctx context.Context, log *slog.Logger) (*Credential, error) {
	const first, last = 50 * time.Millisecond, time.Second
	for wait := first; ; wait = min(2*wait, last) {
		own, err := j.Join(ctx)
		if err == nil || errors.Is(err, ErrRefused) {
			return own, err
		}
		log.Warn("no certificate yet", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Dial connects over TCP; it is the default of Joining.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Renew gets a new certificate: with the current one while it is valid, else with the token.
func (j Joining) Renew(ctx context.Context, c *Credential) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: j.Machine}}
	csr, err := x509.CreateCertificateRequest(rand.Reader, template, c.key)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	request := joinRequest{Token: j.Token, Machine: j.Machine, Request: csr}
	var own []tls.Certificate
	if leaf, _, ends := c.current(); leaf != nil && j.Now().Before(ends) {
		request.Token = "" // it was shown
		own = []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: c.key, Leaf: leaf}}
	}
	authority, answer, err := j.ask(ctx, request, own)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	if answer.Refused != "" {
		return fmt.Errorf("%w: %s", ErrRefused, answer.Refused)
	}
	leaf, err := x509.ParseCertificate(answer.Certificate)
	if err != nil {
		return fmt.Errorf("asking for a certificate: %w", err)
	}
	if !c.key.PublicKey.Equal(leaf.PublicKey) {
		return errors.New("asking for a certificate: it is for another key")
	}
	if c.authority == nil {
		c.authority, c.pool = authority, x509.NewCertPool()
		c.pool.AddCert(authority)
	}
	c.take(leaf, answer)
	return nil
}

// ask sends its request only to the run's own controller.
func (j Joining) ask(ctx context.Context, request joinRequest, own []tls.Certificate) (authority *x509.Certificate, answer joinAnswer, err error) {
	raw, err := j.Dial(ctx, j.Address)
	if err != nil {
		return nil, answer, err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{joinProtocol}, Certificates: own,
		ServerName: string(Controller), Time: j.Now,
		// The authority is known beforehand only by its hash: verify checks the chain itself.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			authority, err = j.verify(s)
			return err
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, answer, err
	}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return nil, answer, err
	}
	err = json.NewDecoder(io.LimitReader(conn, longestAnswer)).Decode(&answer)
	return authority, answer, err
}

// verify requires a controller whose certificate the pinned authority has signed.
func (j Joining) verify(s tls.ConnectionState) (*x509.Certificate, error) {
	if s.NegotiatedProtocol != joinProtocol {
		return nil, errors.New("the other end does not know of joining")
	}
	authority := s.PeerCertificates[len(s.PeerCertificates)-1]
	if hash := hashOf(authority); hash != j.Authority {
		return nil, fmt.Errorf("the other end is of the authority %.16s, not of this run's, %.16s", hash, j.Authority)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: string(Controller), CurrentTime: j.Now()})
	return authority, err
}

func (j Joining) openKey() (*ecdsa.PrivateKey, error) {
	if j.KeyFile != "" {
		text, err := os.ReadFile(j.KeyFile)
		if err == nil {
			key, err := decodeKey(text)
			if err != nil {
				return nil, fmt.Errorf("reading this machine's key: %s: %w", j.KeyFile, err)
			}
			return key, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading this machine's key: %w", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil || j.KeyFile == "" {
		return key, err
	}
	text, err := encodeKey(key)
	if err == nil {
		err = atomicfile.Write(j.KeyFile, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping this machine's key: %w", err)
	}
	return key, nil
}

// again is how often Keep checks the time, and the pause after a failed renewal. (A timer for half a certificate's life would stop while
// the host sleeps.)
const again = 15 * time.Second

// Keep renews a certificate after half of its life, repeatedly, until ctx is done.
func (j Joining) Keep(ctx context.Context, c *Credential, log *slog.Logger) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, renewAt, _ := c.current(); j.Now().Before(renewAt) {
			continue
		}
		err := j.Renew(ctx, c)
		switch _, _, ends := c.current(); {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("the certificate could not be renewed; trying again", "valid_until", ends, "error", err)
		default:
			log.Info("the certificate was renewed", "valid_until", ends)
		}
	}
}
