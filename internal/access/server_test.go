package access

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

// log is a buffer that a server writes while a test reads it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// house serves behind a gate; quick shortens the time limit for strangers.
type house struct {
	t       *testing.T
	token   Token
	address string
	log     log
}

func newHouse(t *testing.T, handler http.Handler, quick time.Duration) *house {
	t.Helper()
	h := &house{t: t, token: Random()}
	log := slog.New(slog.NewTextHandler(&h.log, nil))
	server := Server(NewGate(h.token, false, time.Now, log).Handler(handler), log)
	if quick > 0 {
		for _, limit := range []*time.Duration{&server.ReadHeaderTimeout, &server.ReadTimeout, &server.WriteTimeout} {
			if *limit <= 0 {
				t.Error("a client may take as long as it likes")
			}
			*limit = quick
		}
	}
	listener, err := Endpoint{Address: "127.0.0.1:0"}.Listen()
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return h
}

func (h *house) connect(say string) net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, say); err != nil {
		h.t.Fatal(err)
	}
	return conn
}

// answer reads to the end of a connection, which must come.
func (h *house) answer(conn net.Conn) string {
	h.t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	text, err := io.ReadAll(conn)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		h.t.Error("the connection stays")
	}
	return string(text)
}

// Strangers that never finish a request are disconnected; a request with the token may take its time.
func TestSlowRequestsWithoutATokenAreCutOff(t *testing.T) {
	gone, asked := make(chan struct{}), make(chan struct{})
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-gone // maxAnonymous' time has expired meanwhile
		_, _ = io.WriteString(w, "inside")
	}), 50*time.Millisecond)
	honest := h.connect("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + h.token.Bearer() + "\r\n\r\n")
	<-asked
	const body = "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
	for what, say := range map[string]string{
		"nothing":              "",
		"half a header":        "GET / HTTP/1.1\r\nHost: x\r\nX: y",
		"half a body":          body + "\r\n{",
		"half a body in lumps": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
		"half a login":         "POST " + LoginPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000\r\n\r\ntoken=",
		"a wrong token":        body + "Authorization: Bearer x\r\n\r\n{",
	} {
		if text := h.answer(h.connect(say)); text != "" && !strings.HasPrefix(text, "HTTP/1.1 40") {
			t.Errorf("%s is answered by %q", what, text)
		}
	}
	close(gone)
	if text := h.answer(honest); !strings.HasSuffix(text, "inside") {
		t.Errorf("the request with the token: %q", text)
	}
	if text := h.log.String(); strings.Contains(text, h.token.secret) {
		t.Error("the token is in the log")
	}
}

// However many connections are silent, a client with the token is served, and its authenticated connection is kept.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") }), 0)
	ask := func(conn net.Conn, reader *bufio.Reader) {
		t.Helper()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: "+h.token.Bearer()+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil || string(text) != "inside" {
			t.Errorf("%q, %v", text, err)
		}
	}
	known := h.connect("")
	reader := bufio.NewReader(known)
	ask(known, reader)
	var silent []net.Conn
	for range 3 * maxAnonymous {
		silent = append(silent, h.connect(""))
	}
	fresh := h.connect("")
	ask(fresh, bufio.NewReader(fresh))
	ask(known, reader)
	for _, conn := range silent[:2*maxAnonymous] { // in order of arrival
		h.answer(conn)
	}
	if lines := strings.Count(h.log.String(), "too many"); lines == 0 || lines > loglimit.LinesAMinute {
		t.Errorf("%d lines in the log", lines)
	}
}

// Garbage, and headers without an end, are refused; the log names them, at a limited number of lines per minute.
func TestGarbage(t *testing.T) {
	h := newHouse(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it got in") }), 0)
	for what, say := range map[string]string{
		"garbage": strings.Repeat("\xa5", 1<<15) + "\r\n\r\n", "TLS": "\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<10) + "\r\n\r\n",
		"no host":          "GET / HTTP/1.1\r\n\r\n",
		"two lengths":      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
		"a long method":    strings.Repeat("A", 1000) + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"HTTP/2 unasked":   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"lines in headers": "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer x\x01y\r\n\r\n",
	} {
		conn := h.connect(say)
		_ = conn.(*net.TCPConn).CloseWrite()
		if text := h.answer(conn); text != "" && !strings.HasPrefix(text, "HTTP/1.1 4") && !strings.HasPrefix(text, "HTTP/1.1 505") {
			t.Errorf("%s is answered by %q", what, text)
		}
	}
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n") // it may be cut off
	for range 4 {
		_, _ = io.WriteString(conn, "X: "+strings.Repeat("x", longestHeader)+"\r\n")
	}
	if text := h.answer(conn); text != "" && !strings.HasPrefix(text, "HTTP/1.1 431") {
		t.Errorf("a header without an end is answered by %q", text)
	}
	for line := range strings.Lines(h.log.String()) {
		if len(line) > 400 {
			t.Errorf("a stranger writes %d bytes into a line of the log", len(line))
		}
	}
}
