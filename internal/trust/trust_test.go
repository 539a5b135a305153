package trust

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watch is a clock that tests advance.
type watch struct{ ahead atomic.Int64 }

func (w *watch) now() time.Time       { return time.Now().Add(time.Duration(w.ahead.Load())) }
func (w *watch) wind(d time.Duration) { w.ahead.Add(int64(d)) }

// record is a log that tests read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// run is a run whose controller echoes what its machines say.
type run struct {
	t         *testing.T
	dir       string
	clock     *watch
	authority *Authority
	tokens    *Tokens
	gate      *Gate
	grant     Grant
	log       *record
	served    sync.WaitGroup
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, dir: t.TempDir(), clock: &watch{}, log: &record{}}
	r.open()
	t.Cleanup(r.close)
	return r
}

func (r *run) open() {
	r.t.Helper()
	var err error
	if r.authority, err = OpenAuthority(r.dir, LeastLife, r.clock.now); err != nil {
		r.t.Fatal(err)
	}
	if r.tokens, err = OpenTokens(r.dir, "a secret of the run", r.clock.now); err != nil {
		r.t.Fatal(err)
	}
	own, err := r.authority.Credential(Controller, "run-1")
	if err != nil {
		r.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.gate = NewGate(listener, r.authority, r.tokens, own, r.grant, slog.New(slog.NewTextHandler(r.log, nil)))
	gate := r.gate
	r.served.Go(func() {
		for {
			conn, err := gate.Accept()
			if err != nil {
				return
			}
			r.served.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
}

func (r *run) close() {
	if err := r.gate.Close(); err != nil {
		r.t.Error(err)
	}
	r.served.Wait()
	if err := r.tokens.Close(); err != nil {
		r.t.Error(err)
	}
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func (r *run) joining(machine, token string) Joining {
	return Joining{Address: r.gate.Addr().String(), Dial: dial, Authority: r.authority.Hash(), Token: token, Machine: machine, Now: r.clock.now}
}

func (r *run) join(machine, token string) *Credential {
	r.t.Helper()
	c, err := r.joining(machine, token).Join(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// echo sends something with a TLS configuration and expects it back.
func (r *run) echo(config *tls.Config) error {
	conn, err := tls.Dial("tcp", r.gate.Addr().String(), config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	return err
}

func control(c *Credential) *tls.Config {
	config := c.Config(Controller)
	config.NextProtos = []string{grpcProtocol}
	return config
}

// logged waits for words in the log.
func (r *run) logged(words string) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(r.log.String(), words); {
		if time.Now().After(deadline) {
			r.t.Fatalf("the log does not say %q:\n%s", words, r.log)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAMachineJoinsAndTalks(t *testing.T) {
	r := newRun(t)
	c := r.join("i-1", r.tokens.issue(1))
	if err := r.echo(control(c)); err != nil {
		t.Fatal(err)
	}
	leaf, _, _ := c.current()
	if name := leaf.Subject.CommonName; name != "i-1" {
		t.Errorf("the certificate is of %q", name)
	}
	if life := leaf.NotAfter.Sub(r.clock.now()); life > LeastLife+skew {
		t.Errorf("it lives for %v", life)
	}
}

// A stranger to the run gets no answer; the log says so, and the run's own machines are served as before.
func TestStrangersGetNoAnswer(t *testing.T) {
	r, other := newRun(t), newRun(t)
	honest := r.join("i-1", r.tokens.issue(1))
	foreign := other.join("i-1", other.tokens.issue(1))
	trusting := func(c *tls.Config) *tls.Config { // of a stranger, who accepts our controller
		c.RootCAs = r.authority.pool()
		c.NextProtos = []string{grpcProtocol}
		return c
	}
	for _, s := range []struct {
		name, logged string
		try          func() error
	}{
		{"no certificate", "certificate", func() error {
			return r.echo(trusting(&tls.Config{ServerName: string(Controller)}))
		}},
		{"another run's certificate", "unknown authority", func() error { return r.echo(trusting(foreign.Config(Controller))) }},
		{"a certificate of its own making", "unknown authority", func() error {
			own, err := newAuthority("run-1", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			forged, err := parseAuthority(own)
			if err != nil {
				t.Fatal(err)
			}
			forged.life, forged.now = LeastLife, time.Now
			c, err := forged.Credential(Machine, "i-1")
			if err != nil {
				t.Fatal(err)
			}
			return r.echo(trusting(c.Config(Controller)))
		}},
		{"the role of a controller", "of the role", func() error {
			c, err := r.authority.Credential(Controller, "i-1")
			if err != nil {
				t.Fatal(err)
			}
			return r.echo(trusting(c.Config(Controller)))
		}},
		{"another protocol", "speaks another protocol", func() error {
			config := trusting(honest.Config(Controller))
			config.NextProtos = []string{"http/1.1"}
			return r.echo(config)
		}},
		{"TLS 1.2", "unsupported versions", func() error {
			config := trusting(honest.Config(Controller))
			config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			return r.echo(config)
		}},
		{"plaintext", "first record does not look like a TLS handshake", func() error { return r.say([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) }},
		{"gRPC in plaintext", "first record does not look like a TLS handshake", func() error { return r.say([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) }},
		{"an oversized record", "oversized record", func() error {
			return r.say(append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 0xffff)...))
		}},
		{"garbage in a record", "refused a connection", func() error {
			return r.say(append([]byte{22, 3, 1, 0, 64}, bytes.Repeat([]byte{0xa5}, 64)...))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			if err := s.try(); err == nil {
				t.Error("it was served")
			}
			r.logged(s.logged)
			if err := r.echo(control(honest)); err != nil {
				t.Errorf("a machine of the run is not served any more: %v", err)
			}
		})
	}
}

// say sends bytes and returns an error if only an alert comes back before the end.
func (r *run) say(garbage []byte) error {
	conn, err := net.Dial("tcp", r.gate.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(garbage); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	const alert = 21
	if err == nil && (len(answer) == 0 || answer[0] == alert) {
		err = io.EOF
	}
	return err
}

// A silent connection blocks no other, and ends with the gate.
func TestSilence(t *testing.T) {
	r := newRun(t)
	honest := r.join("i-1", r.tokens.issue(1))
	for range 20 {
		conn, err := net.Dial("tcp", r.gate.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if err := r.echo(control(honest)); err != nil {
		t.Error(err)
	}
}

// An expired certificate opens nothing, and its holder gets a new one with the token of its launch and its own key.
func TestExpiry(t *testing.T) {
	r := newRun(t)
	j := r.joining("i-1", r.tokens.issue(1))
	c, err := j.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := c.current()
	if valid, most := first.NotAfter.Sub(r.clock.now()), LifeFor(15*time.Minute)+130*time.Minute; valid < time.Hour || valid > most || most > 4*time.Hour {
		t.Errorf("it is valid for %v, and is to be for %v at most", valid, most)
	}
	r.clock.wind(first.NotAfter.Sub(r.clock.now()) + 2*time.Second)
	if err := r.echo(control(c)); err == nil {
		t.Error("an expired certificate was taken")
	}
	r.logged("certificate has expired")
	if err := j.Renew(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := r.echo(control(c)); err != nil {
		t.Error(err)
	}
	if now, _, _ := c.current(); now.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("it is the same certificate")
	}
}

// A certificate is renewed at half its life: no token is sent again.
func TestRenewal(t *testing.T) {
	r := newRun(t)
	j := r.joining("i-1", r.tokens.issue(1))
	c, err := j.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, renewAt, _ := c.current()
	if half := renewAt.Sub(r.clock.now()); half < 29*time.Minute || half > 30*time.Minute {
		t.Errorf("it is renewed after %v", half)
	}
	r.clock.wind(40 * time.Minute)
	j.Token = "not to be shown"
	if err := j.Renew(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.clock.wind(first.NotAfter.Sub(r.clock.now()) + 2*time.Second) // the first one has expired
	if err := r.echo(control(c)); err != nil {
		t.Error(err)
	}
	j.Machine = "i-2"
	if err := j.Renew(t.Context(), c); !errors.Is(err, ErrRefused) {
		t.Errorf("it became another machine: %v", err)
	}
}

// A token counts once for each machine of its launch, and for no other; even after the controller was restarted.
func TestTokens(t *testing.T) {
	r, other := newRun(t), newRun(t)
	other.tokens.secret = []byte("another secret")
	token := r.tokens.issue(2)
	kept := r.joining("i-1", token)
	kept.KeyFile = filepath.Join(t.TempDir(), "key.pem")
	if _, err := kept.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.join("i-2", token)
	late := r.tokens.issue(1)
	refused := func(machine, token, why string) {
		t.Helper()
		_, err := r.joining(machine, token).Join(t.Context())
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s with a token: %v; want %q", machine, err, why)
		}
		r.logged(why)
	}
	for range 2 {
		refused("i-3", token, "was used before")
		refused("i-1", token, "with another key")
		refused("i-1", r.tokens.issue(1), "with another key")
		refused("i-4", other.tokens.issue(1), "did not issue")
		refused("i-4", token[:len(token)-1]+"x", "did not issue")
		refused("i-4", strings.Replace(token, ".2.", ".3.", 1), "did not issue")
		refused("i-4", "", "did not issue")
		refused(strings.Repeat("i", 65), token, "a long one")
		// The same process, or the next one of the same machine.
		if _, err := kept.Join(t.Context()); err != nil {
			t.Errorf("an agent that was started again: %v", err)
		}
		r.close()
		// A crash in the middle of a line.
		file, err := os.OpenFile(filepath.Join(r.dir, JoinedFile), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(`{"token":"half`); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		kept.Address = r.gate.Addr().String()
	}
	r.join("i-5", r.tokens.issue(1)) // and the list continues
	r.clock.wind(TokenLife + skew + 2*time.Second)
	refused("i-6", late, "has expired")
	for _, secret := range []string{token, late, "a secret of the run", "PRIVATE"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log has a secret in it: %s", secret)
		}
	}
	for _, name := range []string{AuthorityFile, JoinedFile} {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(kept.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the machine's key: mode %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, JoinedFile)); err != nil || bytes.Contains(text, []byte(token)) {
		t.Errorf("the list has a token in it: %s, %v", text, err)
	}
}

// A machine sends its token only to the controller of the run that launched it.
func TestAMachineIsNotDeceived(t *testing.T) {
	r, other := newRun(t), newRun(t)
	j := other.joining("i-1", r.tokens.issue(1))
	j.Authority = r.authority.Hash()
	if _, err := j.Join(t.Context()); err == nil || !strings.Contains(err.Error(), "not of this run's") || errors.Is(err, ErrRefused) {
		t.Errorf("it joined another: %v", err)
	}
	if strings.Contains(other.log.String(), "may not join") {
		t.Errorf("the other was asked:\n%s", other.log)
	}
	// Nor can a machine of the same run pass for its controller.
	c := r.join("i-9", r.tokens.issue(1))
	pretender := &Gate{own: c}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var served sync.WaitGroup
	defer served.Wait()
	served.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, pretender.config()).Handshake()
	})
	j = r.joining("i-8", r.tokens.issue(1))
	j.Address = listener.Addr().String()
	if _, err := j.Join(t.Context()); err == nil || !strings.Contains(err.Error(), string(Controller)) {
		t.Errorf("it joined a machine: %v", err)
	}
}

// A stranger's data when it joins is read up to a limit, and answered with a refusal or not at all.
func TestGarbageFromJoinedMachines(t *testing.T) {
	r := newRun(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(csr)
	broken[len(broken)-1] ^= 1
	asJSON := func(q joinRequest) []byte {
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, text := range map[string][]byte{
		"not JSON":            []byte("\x00\x01\x02\x03"),
		"another shape":       []byte(`[1,2,3]`),
		"oversized":           asJSON(joinRequest{Machine: "i-1", Token: strings.Repeat("x", 1<<20), Request: csr}),
		"no request":          asJSON(joinRequest{Machine: "i-1", Token: r.tokens.issue(1)}),
		"a request's garbage": asJSON(joinRequest{Machine: "i-1", Token: r.tokens.issue(1), Request: []byte("garbage")}),
		"a stolen request":    asJSON(joinRequest{Machine: "i-1", Token: r.tokens.issue(1), Request: broken}),
		"no name":             asJSON(joinRequest{Token: r.tokens.issue(1), Request: csr}),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", r.gate.Addr().String(), &tls.Config{
				NextProtos: []string{joinProtocol}, RootCAs: r.authority.pool(), ServerName: string(Controller), Time: r.clock.now})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = conn.Write(text) // may be cut off
			_ = conn.CloseWrite()
			var answer joinAnswer
			if err := json.NewDecoder(conn).Decode(&answer); err == nil && (answer.Refused == "" || answer.Certificate != nil) {
				t.Errorf("it got %+v", answer)
			}
		})
	}
	r.join("i-1", r.tokens.issue(1)) // the name is free
}

// A life of at least four times an orphan's patience leaves twice that patience at renewal.
func TestLifeFor(t *testing.T) {
	if LifeFor(10*time.Second) != time.Hour || LifeFor(time.Hour) != 4*time.Hour {
		t.Error(LifeFor(10*time.Second), LifeFor(time.Hour))
	}
}

func TestPlain(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.1:1": false, "0.0.0.0:1": false, "[::]:1": false} {
		at, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Plain(addressed{at: at}, slog.New(slog.DiscardHandler)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := Plain(addressed{at: &net.UnixAddr{Name: "x"}}, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

// addressed is a listener with only an address.
type addressed struct {
	net.Listener
	at net.Addr
}

func (a addressed) Addr() net.Addr { return a.at }
