package access

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

// cookieName is the cookie that a browser sends after it has logged in.
const cookieName = "tierml"

// LoginPath is where a browser sends the token.
const LoginPath = "/login"

// Gate admits requests that present a token: programs in the Authorization header, browsers in a cookie that they get for it on a page.
// Handlers behind it find the token's rights by ClientOf. It logs refused callers, at most some lines a minute.
type Gate struct {
	token   Token
	holders []holder
	log     *slog.Logger
	now     func() time.Time
	secure  bool // the cookie is for TLS only

	said loglimit.Limit
}

// NewGate returns a gate whose own token grants everything; secure says that it is reached by TLS.
func NewGate(token Token, secure bool, now func() time.Time, log *slog.Logger) *Gate {
	g := &Gate{token: token, log: log, now: now, secure: secure}
	if !token.Zero() {
		g.Grant(Administer, All, sha256.Sum256([]byte(token.secret)))
	}
	return g
}

// Handler serves the page that asks for the token, and passes admitted requests to next.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == LoginPath {
			g.login(w, r)
			return
		}
		client, ok := g.admitted(r)
		if !ok {
			g.refuse(w, r)
			return
		}
		identified(w, r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, client)))
	})
}

// Headers by which a gate's process tells another one whose request it forwards, and from where it came.
const holderHeader, fromHeader = "Tierml-Holder", "Tierml-From"

// Forward prepares an admitted request for the Behind of another process, which learns whose token it has presented but not the token.
func Forward(out, in *http.Request) {
	for _, secret := range []string{"Authorization", "Cookie"} {
		out.Header.Del(secret)
	}
	out.Header.Set(holderHeader, ClientOf(in.Context()).ID())
	out.Header.Set(fromHeader, in.RemoteAddr)
}

// Behind is Handler if only a gate's process can send requests (Forward).
func (g *Gate) Behind(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := g.holding(func(h holder) bool { return h.id == r.Header.Get(holderHeader) })
		if !ok {
			g.refuse(w, r)
			return
		}
		identified(w, r)
		r = r.WithContext(context.WithValue(r.Context(), clientKey{}, h.Client))
		r.RemoteAddr = r.Header.Get(fromHeader)
		next.ServeHTTP(w, r)
	})
}

// admitted returns the holder of the token in a request. A request that another site makes through a browser does not count, unless it only
// reads: the cookie is SameSite=Strict, but this is an additional safeguard.
func (g *Gate) admitted(r *http.Request) (Client, bool) {
	if given := bearer(r); given != "" {
		h, ok := g.holding(func(h holder) bool { return h.sum.Is(given) })
		return h.Client, ok
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil || g.token.Zero() || !reads(r) && !sameOrigin(r) {
		return Client{}, false
	}
	h, ok := g.holding(func(h holder) bool { return hmac.Equal([]byte(cookie.Value), []byte(g.cookie(h))) })
	return h.Client, ok
}

// bearer returns the token of a program's request; empty = none.
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

// cookie returns a holder's in a browser. It is not the token, so that a stolen cookie cannot be used elsewhere.
func (g *Gate) cookie(h holder) string {
	mac := hmac.New(sha256.New, []byte(g.token.secret))
	mac.Write([]byte("tierml: cookie of a browser"))
	mac.Write(h.sum[:])
	return hex.EncodeToString(mac.Sum(nil))
}

//go:embed login.html
var loginPage []byte

func (g *Gate) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 4*longest)
		given := strings.TrimSpace(r.PostFormValue("token"))
		if h, ok := g.holding(func(h holder) bool { return h.sum.Is(given) }); ok {
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: g.cookie(h), Path: "/", HttpOnly: true, Secure: g.secure,
				SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, local(r.PostFormValue(toField)), http.StatusSeeOther)
			return
		}
		g.note(r)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(bytes.Replace(loginTo(r), []byte("<!-- said -->"), []byte(`<p role="alert">This is no token of this job server.</p>`), 1))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(loginTo(r)) // the client may have disconnected
}

// toField is the form field and parameter of the login page with the page that was opened.
const toField = "to"

// loginTo returns the login page of a request for a page, to which the form leads.
func loginTo(r *http.Request) []byte {
	to := local(r.FormValue(toField))
	if to == "/" {
		return loginPage
	}
	return bytes.Replace(loginPage, []byte("<!-- to -->"), []byte(`<input type="hidden" name="to" value="`+html.EscapeString(to)+`">`), 1)
}

// local returns a path of this server, with its query; "/" in case a link could lead elsewhere.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > 2000 || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		login := LoginPath
		if to := local(r.URL.RequestURI()); to != "/" {
			login += "?" + url.Values{toField: {to}}.Encode()
		}
		http.Redirect(w, r, login, http.StatusSeeOther)
		return
	}
	g.note(r)
	w.Header().Set("Connection", "close") // a stranger's body is not awaited
	w.Header().Set("WWW-Authenticate", `Bearer realm="tierml"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "the token is missing or not this job server's"}) // the client may have disconnected
}

func (g *Gate) note(r *http.Request) {
	g.said.WarnAt(g.now(), g.log, "a request without the token was refused", "from", r.RemoteAddr, "method", brief(r.Method))
}

// brief shortens clients' input for the log.
func brief(s string) string {
	if len(s) > 16 {
		return s[:16] + "..."
	}
	return s
}

// LocalHost refuses requests that do not name this host by a loopback address, so that foreign web pages cannot make a browser send them
// (DNS rebinding). It is for servers on loopback without a token.
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
