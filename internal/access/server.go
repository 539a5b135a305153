package access

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

const (
	// maxAnonymous bounds the connections that have not presented the token. With one more, the oldest is closed: however many there are, a
	// newcomer is served.
	maxAnonymous = 256
	// patience is how long a stranger may take for a whole request, including its body.
	patience = 10 * time.Second
	// bodyPatience is how long the body of a request with the token may take, unless its reader allows more.
	bodyPatience = time.Minute
	// answerPatience is how long a stranger may take to read an answer.
	answerPatience = 30 * time.Second
	idlePatience   = 2 * time.Minute
	longestHeader  = 32 << 10
)

// Server returns a server that clients without the token cannot block: their time, memory and connections are bounded. Admitted requests
// may take their time.
func Server(handler http.Handler, log *slog.Logger) *http.Server {
	c := &anonymous{most: maxAnonymous, byConn: map[net.Conn]*anonymousConn{}, log: log, now: time.Now}
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: answerPatience, IdleTimeout: idlePatience,
		MaxHeaderBytes: longestHeader, ErrorLog: slog.NewLogLogger(c, slog.LevelWarn), ConnState: c.state, ConnContext: c.context,
	}
}

// anonymous tracks the connections that have not presented the token, oldest first.
type anonymous struct {
	most int
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	order  list.List // of *anonymousConn
	byConn map[net.Conn]*anonymousConn
	said   loglimit.Limit
}

// anonymousConn is a connection; at is its place in the order, nil once it has presented the token.
type anonymousConn struct {
	all  *anonymous
	conn net.Conn
	at   *list.Element
}

type connKey struct{}

// context registers a new connection.
func (c *anonymous) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &anonymousConn{all: c, conn: conn}
	g.at = c.order.PushBack(g)
	c.byConn[conn] = g
	if c.order.Len() > c.most {
		oldest := c.order.Front().Value.(*anonymousConn)
		oldest.leave()
		cut(oldest.conn)
		c.said.WarnAt(c.now(), c.log, "a connection was closed: too many have not shown who they are", "from", oldest.conn.RemoteAddr())
	}
	return context.WithValue(ctx, connKey{}, g)
}

// state removes an ended connection.
func (c *anonymous) state(conn net.Conn, to http.ConnState) {
	if to != http.StateClosed && to != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.byConn[conn]; g != nil {
		g.leave()
		delete(c.byConn, conn)
	}
}

// cut closes a connection at once: TLS would first send a goodbye to a client that may not listen.
func cut(conn net.Conn) {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	_ = conn.Close()
}

// leave requires the lock.
func (g *anonymousConn) leave() {
	if g.at != nil {
		g.all.order.Remove(g.at)
		g.at = nil
	}
}

// identified records that a request has presented the token, and lifts its deadlines.
func identified(w http.ResponseWriter, r *http.Request) {
	if g, ok := r.Context().Value(connKey{}).(*anonymousConn); ok {
		g.all.mu.Lock()
		g.leave()
		g.all.mu.Unlock()
	}
	at := http.NewResponseController(w) // if there are no deadlines, none need to be moved
	_ = at.SetWriteDeadline(time.Time{})
	if r.ContentLength == 0 {
		_ = at.SetReadDeadline(time.Time{})
	} else {
		_ = at.SetReadDeadline(time.Now().Add(bodyPatience))
	}
}

// Slowly extends the deadline of a request's body for its next piece.
func Slowly(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience))
}

// AllRead reports that a request's body has arrived: the answer may take its time.
func AllRead(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// Answering extends the deadline of an answer in pieces for the next one.
func Answering(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerPatience))
}

// Enabled implements slog.Handler: net/http logs about connections, such as failed handshakes, this way.
func (c *anonymous) Enabled(context.Context, slog.Level) bool { return true }

// Handle limits these lines, as clients without the token can cause any number. A handler that panicked is our own fault, and always
// logged.
func (c *anonymous) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic serving") {
		c.log.Error("a request failed", "error", r.Message)
		return nil
	}
	c.said.WarnAt(c.now(), c.log, "refused a connection", "error", strings.TrimSpace(r.Message))
	return nil
}

// WithAttrs is required by slog.Handler, and unused.
func (c *anonymous) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup is required by slog.Handler, and unused.
func (c *anonymous) WithGroup(string) slog.Handler { return c }
