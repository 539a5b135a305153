package access

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "token")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	token, made, err := Ensure(path)
	if err != nil || !made {
		t.Fatal(made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, made, err := Ensure(path)
	if err != nil || made || again != token {
		t.Errorf("again: made %v, the same %v, %v", made, again == token, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable for a group: %v", err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 2000), "two words of some length"} {
		other := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(other, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(other); err == nil {
			t.Errorf("a token of %d bytes is taken", len(bad))
		}
	}
}

// However a token is printed, its value is not in it.
func TestTokenIsNotPrinted(t *testing.T) {
	token := Random()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token)
	for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s", token, token, token, token), log.String()} {
		if strings.Contains(text, token.secret) {
			t.Errorf("the token is in %q", text)
		}
	}
}

func TestIs(t *testing.T) {
	token := Random()
	sum, err := ParseSum(token.SHA256())
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]bool{
		token.secret: true, "": false, token.secret + "x": false, token.secret[:len(token.secret)-1]: false, strings.ToLower(token.secret): false,
	} {
		if sum.Is(given) != want {
			t.Errorf("%d characters: %v", len(given), !want)
		}
	}
	if _, err := ParseSum(Token{}.SHA256()); err == nil {
		t.Error("the sum of no token opens for nothing")
	}
}

func gate(t *testing.T) (g *Gate, handler http.Handler, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	g = NewGate(Random(), false, func() time.Time { return time.Unix(0, 0) }, slog.New(slog.NewTextHandler(log, nil)))
	return g, g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "inside") })), log
}

func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestOnlyTokenHoldersAreAdmitted(t *testing.T) {
	g, handler, log := gate(t)
	for name, c := range map[string]struct {
		header, value string
		want          int
	}{
		"no token":        {"", "", http.StatusUnauthorized},
		"the token":       {"Authorization", g.token.Bearer(), http.StatusOK},
		"another token":   {"Authorization", Random().Bearer(), http.StatusUnauthorized},
		"not a bearer":    {"Authorization", g.token.secret, http.StatusUnauthorized},
		"the cookie":      {"Cookie", cookieName + "=" + g.cookie(g.holders[0]), http.StatusOK},
		"another cookie":  {"Cookie", cookieName + "=" + strings.Repeat("0", 64), http.StatusUnauthorized},
		"token as cookie": {"Cookie", cookieName + "=" + g.token.secret, http.StatusUnauthorized},
		"in the address":  {"Referer", "http://x/?token=" + g.token.secret, http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/jobs?token="+g.token.secret, nil)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		w := ask(handler, r)
		if w.Code != c.want || (w.Body.String() == "inside") != (c.want == http.StatusOK) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if strings.Contains(log.String(), g.token.secret) {
		t.Error("the token is in the log")
	}
}

// A browser is prompted for the token, and gets a cookie that other sites cannot use.
func TestBrowser(t *testing.T) {
	g, handler, _ := gate(t)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "text/html,*/*")
	if w := ask(handler, r); w.Code != http.StatusSeeOther || w.Header().Get("Location") != LoginPath {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	post := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, LoginPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return ask(handler, r)
	}
	if w := post("wrong"); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("a wrong token: %d with %v", w.Code, w.Result().Cookies())
	}
	w := post(g.token.secret)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("%d with %v", w.Code, cookies)
	}
	for origin, want := range map[string]int{"http://example.com": http.StatusOK, "http://evil.example": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		r := httptest.NewRequest(http.MethodPost, "http://example.com/api/v1/jobs/x/stop", nil)
		r.AddCookie(cookies[0])
		r.Header.Set("Origin", origin)
		if w := ask(handler, r); w.Code != want {
			t.Errorf("a change from %q: %d", origin, w.Code)
		}
	}
}

// A shared link leads to its page, after the token; no link leads to another site, or puts markup into the form.
func TestLinksSurviveTheToken(t *testing.T) {
	g, handler, _ := gate(t)
	login := func(to string) string {
		form := url.Values{"token": {g.token.secret}, "to": {to}}
		r := httptest.NewRequest(http.MethodPost, LoginPath, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return ask(handler, r).Header().Get("Location")
	}
	const link = "/compare?run=a-1&run=b-2"
	r := httptest.NewRequest(http.MethodGet, link, nil)
	r.Header.Set("Accept", "text/html")
	at := ask(handler, r).Header().Get("Location")
	if form := ask(handler, httptest.NewRequest(http.MethodGet, at, nil)).Body.String(); !strings.Contains(form, `name="to" value="/compare?run=a-1&amp;run=b-2"`) {
		t.Errorf("%s has the form %s", at, form)
	}
	if to := login(link); to != link {
		t.Errorf("the token leads to %s", to)
	}
	for _, evil := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "javascript:alert(1)", "evil", "/\t/evil.example", "/" + strings.Repeat("x", 3000), ""} {
		if to := login(evil); to != "/" {
			t.Errorf("%q leads to %q", evil, to)
		}
	}
	form := ask(handler, httptest.NewRequest(http.MethodGet, LoginPath+"?to="+url.QueryEscape(`/"><script>alert(1)</script>`), nil)).Body.String()
	if strings.Contains(form, "<script") {
		t.Error(form)
	}
}

// Strangers cannot fill the disk with log lines.
func TestLogIsBounded(t *testing.T) {
	_, handler, log := gate(t)
	for range 500 {
		ask(handler, httptest.NewRequest(http.MethodGet, "/", nil))
	}
	if lines := strings.Count(log.String(), "\n"); lines > loglimit.LinesAMinute {
		t.Errorf("%d lines", lines)
	}
}

func TestDoors(t *testing.T) {
	for _, c := range []struct {
		door Endpoint
		want string // part of the refusal; empty = fine
	}{
		{Endpoint{Address: "localhost:0"}, ""},
		{Endpoint{Address: "127.0.0.1:0"}, ""},
		{Endpoint{Address: "[::1]:0"}, ""},
		{Endpoint{Address: ":7071"}, "--tls-cert"},
		{Endpoint{Address: "0.0.0.0:7071"}, "ssh -L 7071:localhost:7071"},
		{Endpoint{Address: "example.com:80"}, "other hosts"},
		{Endpoint{Address: ":7071", Plaintext: true}, ""},
		{Endpoint{Address: ":7071", Cert: "c", Key: "k"}, ""},
		{Endpoint{Address: ":7071", Cert: "c"}, "belong together"},
		{Endpoint{Address: "7071"}, "write it as localhost:7070"},
		{Endpoint{Address: ""}, `--listen "": missing port`},
		{Endpoint{Address: "localhost:"}, `"" is not a port; write a number from 1 to 65535, or 0 for any free one`},
		{Endpoint{Address: "localhost:99999"}, `"99999" is not a port`},
		{Endpoint{Address: "localhost:-1"}, `"-1" is not a port`},
		{Endpoint{Address: "localhost:80x"}, `"80x" is not a port`},
	} {
		err := c.door.Check("the dashboard")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.door, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for address, want := range map[string]string{
		"http://localhost:7071": "", "http://127.0.0.1:7071/": "", "https://ml.example.com": "", "http://[::1]:1": "",
		"http://ml.example.com:7071": "in the clear", "localhost:7071": "write it as", "ftp://localhost": "write it as",
		"https://user:secret@ml.example.com": "has no user", "https://ml.example.com/?token=x": "no question mark",
	} {
		_, err := CheckURL(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a secret is in %v", err)
		}
	}
}

// A token known by its SHA-256 is accepted, with its rights; its hash is not.
func TestTokensKnownByHashAreAccepted(t *testing.T) {
	g, _, _ := gate(t)
	var client Client
	handler := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { client = ClientOf(r.Context()) }))
	granted := func(right Right, groups ...string) Token {
		token := Random()
		sum, err := ParseSum(token.SHA256())
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			g.Grant(right, group, sum)
		}
		return token
	}
	other, seer := granted(Administer, All), granted(Watch, All, "vision")
	both := granted(Submit, "vision")
	sum, _ := ParseSum(both.SHA256()) // it is one
	g.Grant(Watch, "vision", sum)     // takes nothing away
	g.Grant(Watch, "speech", sum)
	login := func(token Token) (out *http.Cookie) {
		r := httptest.NewRequest(http.MethodPost, LoginPath, strings.NewReader(url.Values{"token": {token.secret}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := ask(handler, r)
		if cookies := answer.Result().Cookies(); len(cookies) == 1 {
			out = cookies[0]
		} else if !strings.Contains(answer.Body.String(), "This is no token of this job server") {
			t.Errorf("a wrong token: %s", answer.Body)
		}
		return out
	}
	for name, c := range map[string]struct {
		token                Token
		code                 int
		vision, speech, none Right
		words                string
	}{
		"the gate's own": {g.token, http.StatusOK, Administer, Administer, Administer, "administer of all groups"},
		"the other":      {other, http.StatusOK, Administer, Administer, Administer, "administer of all groups"},
		"one that reads": {seer, http.StatusOK, Watch, Watch, Watch, "watch of all groups, watch of vision"},
		"of two groups":  {both, http.StatusOK, Submit, Watch, None, "submit of vision, watch of speech"},
		"a third":        {Random(), http.StatusUnauthorized, None, None, None, "no right"},
		"the sum":        {Token{both.SHA256()}, http.StatusUnauthorized, None, None, None, "no right"},
		"nothing":        {Token{}, http.StatusUnauthorized, None, None, None, "no right"},
	} {
		for _, browser := range []bool{false, true} {
			client = Client{}
			r := httptest.NewRequest(http.MethodGet, "/api/v1/jobs", nil)
			if browser {
				if cookie := login(c.token); cookie != nil {
					r.AddCookie(cookie)
				}
			} else {
				r.Header.Set("Authorization", c.token.Bearer())
			}
			code := ask(handler, r).Code
			if code != c.code || client.Right("vision") != c.vision || client.Right("speech") != c.speech || client.Right("") != c.none || client.String() != c.words {
				t.Errorf("%s, in a browser %v: %d, %s", name, browser, code, client)
			}
		}
	}
	for _, bad := range []string{"", "0a", strings.Repeat("x", 64)} {
		if _, err := ParseSum(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Endpoint{Address: taken.Addr().String()}.Listen()
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "end the program that has it, or choose another port with --listen") {
		t.Errorf("a taken port: %v", err)
	}
}

// Behind another process's gate a request belongs to the user that the gate names. Headers of that kind written by clients, and their
// secrets, do not pass the gate.
func TestBehindAGate(t *testing.T) {
	front, behind := NewGate(Random(), false, time.Now, slog.New(slog.DiscardHandler)), NewGate(Token{}, false, time.Now, slog.New(slog.DiscardHandler))
	token := Random()
	for _, g := range []*Gate{front, behind} {
		sum, err := ParseSum(token.SHA256())
		if err != nil {
			t.Fatal(err)
		}
		g.Grant(Submit, "vision", sum)
	}
	own := behind.Behind(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, ClientOf(r.Context()), " ", r.RemoteAddr, r.Header.Get("Authorization"), r.Header.Get("Cookie"))
	}))
	both := front.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(t.Context())
		Forward(out, r)
		own.ServeHTTP(w, out)
	}))
	for _, c := range []struct {
		handler       http.Handler
		token, holder string
		code          int
		says          string
	}{
		{both, token.Bearer(), "", 200, "submit of vision 192.0.2.1:1234"}, {both, token.Bearer(), front.token.SHA256(), 200, "submit of vision 192.0.2.1:1234"},
		{both, Random().Bearer(), token.SHA256(), 401, ""}, {both, "", token.SHA256(), 401, ""},
		{own, token.Bearer(), "", 401, ""}, {own, "", Random().SHA256(), 401, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", c.token)
		r.Header.Set(holderHeader, c.holder)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != c.code || c.says != "" && w.Body.String() != c.says {
			t.Errorf("%+v: %d %q", c, w.Code, w.Body)
		}
	}
}
