package access

import (
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

// cookieName is what a browser shows after it has logged in.
const cookieName = "tierml"

// LoginPath is where a browser gives the token.
const LoginPath = "/login"

// Gate lets requests through that show the token: programs in the Authorization header, browsers in a cookie that they get
// for it on a page. It logs who is refused, at most some lines a minute.
type Gate struct {
	token  Token
	others []Sum
	seers  []Sum // of tokens that only read
	log    *slog.Logger
	now    func() time.Time
	secure bool // the cookie is for TLS only

	said loglimit.Limit
}

// NewGate makes a gate; secure says that it is reached by TLS.
func NewGate(token Token, secure bool, now func() time.Time, log *slog.Logger) *Gate {
	return &Gate{token: token, log: log, now: now, secure: secure}
}

// Accept lets others in as well, whose tokens are known by their SHA-256 only. It is called before Handler's first request.
func (g *Gate) Accept(others ...Sum) { g.others = append(g.others, others...) }

// AcceptReaders lets others in for requests that only read: programs alone, with GET and HEAD. It is called before Handler's first request.
func (g *Gate) AcceptReaders(others ...Sum) { g.seers = append(g.seers, others...) }

// takes reports whether a token is one of those that open.
func (g *Gate) takes(given string) bool {
	own := g.token.Is(given)
	return isOne(g.others, given) || own
}

// isOne reports whether a token is one of those with these sums.
func isOne(sums []Sum, given string) (is bool) {
	for _, s := range sums {
		is = s.Is(given) || is // all are compared: the time reveals nothing
	}
	return is
}

// Handler serves the page that asks for the token, and hands what shows it on to next.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == LoginPath:
			g.login(w, r)
		case g.admitted(r):
			identified(w, r)
			next.ServeHTTP(w, r)
		case isOne(g.seers, bearer(r)):
			w.Header().Set("Connection", "close")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "this token only reads; what changes something needs the controller's own"}) // as below
		default:
			g.refuse(w, r)
		}
	})
}

// admitted reports whether a request shows the token. A request of a browser that another site has it make does not count,
// unless it only reads: the cookie is SameSite=Strict, and this does not rely on it alone.
func (g *Gate) admitted(r *http.Request) bool {
	if given := bearer(r); given != "" {
		return g.takes(given) || reads(r) && isOne(g.seers, given)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil || !hmac.Equal([]byte(cookie.Value), []byte(g.cookie())) || g.token.Zero() {
		return false
	}
	return reads(r) || sameOrigin(r)
}

// bearer is the token of a program's request; empty = it has none.
func bearer(r *http.Request) string {
	given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return ""
	}
	return given
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func sameOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host == r.Host && origin.Host != ""
}

// cookie is not the token, so that who reads a browser's cookies cannot use it elsewhere.
func (g *Gate) cookie() string {
	mac := hmac.New(sha256.New, []byte(g.token.secret))
	mac.Write([]byte("tierml: cookie of a browser"))
	return hex.EncodeToString(mac.Sum(nil))
}

//go:embed login.html
var loginPage []byte

func (g *Gate) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 4*longest)
		if g.takes(strings.TrimSpace(r.PostFormValue("token"))) {
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: g.cookie(), Path: "/", HttpOnly: true, Secure: g.secure,
				SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		g.note(r)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
	} else {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	_, _ = w.Write(loginPage) // the client may be gone
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, LoginPath, http.StatusSeeOther)
		return
	}
	g.note(r)
	w.Header().Set("Connection", "close") // a stranger's body is not waited for
	w.Header().Set("WWW-Authenticate", `Bearer realm="tierml"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "the token is missing or not this controller's"}) // the client may be gone
}

func (g *Gate) note(r *http.Request) {
	g.said.WarnAt(g.now(), g.log, "a request without the token was refused", "from", r.RemoteAddr, "method", brief(r.Method))
}

// brief keeps what clients send short in the log.
func brief(s string) string {
	if len(s) > 16 {
		return s[:16] + "..."
	}
	return s
}

// LocalHost refuses requests that do not name this host by a loopback address: a web page somewhere else cannot have a
// browser make them (DNS rebinding). It is for what listens on loopback without a token.
func LocalHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(hostOf(r.Host)) {
			http.Error(w, "this dashboard answers to localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostOf(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return hostPort
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
