package dashboard

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
)

// workers is a run that counts requests for more.
type workers struct{ asked atomic.Int64 }

func (w *workers) Scale(_ context.Context, want elasticity.ScaleWanted, _ bool, told func(elasticity.Scale, bool) error) error {
	if want.Workers < -4 {
		return errors.New("there are 4 workers")
	}
	w.asked.Add(int64(want.Workers))
	return told(elasticity.Scale{Workers: 4, Want: bidding.Want{Machines: 4 + want.Workers}}, false)
}

func (w *workers) Stop(context.Context, string, bool) {}

// Forms on a running run's page reach the run, through the gate and only from our own pages.
func TestActs(t *testing.T) {
	root := t.TempDir()
	story := journaltest.New(1).Entries
	dir := write(t, root, "demo-1", story[:len(story)/2])
	release, err := rundir.HoldUntil(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	driver := &workers{}
	door, err := scaling.Serve(dir, driver, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	b, open := board(t, root)
	var stopped string
	b.Offers(Acts{
		Stop:  func(_ context.Context, dir string) error { stopped = dir; return nil },
		Drill: func(_ context.Context, _, do string) (string, error) { return do + " of 1 machine", nil },
	})
	await(t, b, 1)
	path := filepath.Join(t.TempDir(), "token")
	token, _, err := access.Ensure(path)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	guarded := httptest.NewServer(access.NewGate(token, false, time.Now, slog.New(slog.DiscardHandler)).Handler(b.Guarded()))
	defer guarded.Close()
	client := guarded.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	login, err := client.PostForm(guarded.URL+access.LoginPath, url.Values{"token": {strings.TrimSpace(string(secret))}})
	if err != nil || len(login.Cookies()) != 1 {
		t.Fatal(login, err)
	}
	login.Body.Close()
	post := func(server *httptest.Server, origin string, form url.Values) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/runs/demo-1/act", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", origin)
		request.AddCookie(login.Cookies()[0])
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	more := url.Values{"act": {"scale"}, "workers": {"2"}}
	if code, text := post(guarded, "https://elsewhere.example", more); code != http.StatusUnauthorized {
		t.Errorf("from another site: %d %s", code, text)
	}
	if code, text := post(open, open.URL, more); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
		t.Errorf("without a token: %d %s", code, text)
	}
	if driver.asked.Load() != 0 {
		t.Fatal("others may scale")
	}
	for _, c := range []struct {
		form url.Values
		code int
		want string
	}{
		{more, http.StatusOK, "4 workers train now, and 6 transient machines are wanted"},
		{url.Values{"act": {"scale"}, "workers": {"-9"}}, http.StatusConflict, "there are 4 workers"},
		{url.Values{"act": {"scale"}, "workers": {"many"}}, http.StatusConflict, "no number of workers"},
		{url.Values{"act": {"drill"}, "do": {"kill"}}, http.StatusOK, "kill of 1 machine"},
		{url.Values{"act": {"stop"}}, http.StatusOK, "saves its work"},
		{url.Values{"act": {"format the disk"}}, http.StatusBadRequest, "does not offer"},
	} {
		if code, text := post(guarded, guarded.URL, c.form); code != c.code || !strings.Contains(text, c.want) || !strings.Contains(text, `<a href="/runs/demo-1">Back to demo-1</a>`) {
			t.Errorf("%v: %d %s", c.form, code, text)
		}
	}
	if driver.asked.Load() != 2 || stopped != dir {
		t.Errorf("%d workers asked for, stopped %q", driver.asked.Load(), stopped)
	}
	const form = `action="/runs/demo-1/act"`
	if strings.Contains(get(t, open, "/runs/demo-1", http.StatusOK), form) {
		t.Error("the page without a token offers acts")
	}
	plain := httptest.NewServer(b.Guarded())
	defer plain.Close()
	if n := strings.Count(get(t, plain, "/runs/demo-1", http.StatusOK), form); n != 3 {
		t.Errorf("the page behind a token has %d forms", n)
	}
}

// Runs that have ended can be archived and deleted on their pages, with a token; running ones cannot.
func TestArchiveAndDelete(t *testing.T) {
	root := t.TempDir()
	story := journaltest.New(1).Entries
	dir := write(t, root, "demo-1", story)
	running := write(t, root, "demo-2", story[:len(story)/2])
	release, err := rundir.HoldUntil(running)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	b, open := board(t, root)
	refuse := false
	b.Offers(Acts{Delete: func(_ context.Context, dir string) error {
		if refuse {
			return errors.New("its machines may still cost money")
		}
		return os.RemoveAll(dir)
	}})
	b.listed.now = func() time.Time { return time.Unix(0, 0).Add(time.Duration(time.Now().UnixNano()) * 1e6) } // never cached
	await(t, b, 2)
	guarded := httptest.NewServer(b.Guarded())
	defer guarded.Close()
	post := func(run, act string, code int) {
		t.Helper()
		answer, err := guarded.Client().PostForm(guarded.URL+"/runs/"+run+"/act", url.Values{"act": {act}})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != code {
			t.Errorf("%s of %s: %d, want %d", act, run, answer.StatusCode, code)
		}
	}
	listed := func(address string, want bool) {
		t.Helper()
		if text := get(t, guarded, address, http.StatusOK); strings.Contains(text, `href="/runs/demo-1"`) != want {
			t.Errorf("%s: demo-1 is there: %v\n%s", address, !want, text)
		}
	}
	listed("/", true)
	post("demo-1", "archive", http.StatusOK)
	listed("/", false)
	listed("/?archived=1", true)
	if text := get(t, guarded, "/runs/demo-1", http.StatusOK); !strings.Contains(text, `value="restore"`) || !strings.Contains(text, `value="delete"`) {
		t.Error("its page does not offer to restore and delete it")
	}
	if text := get(t, open, "/runs/demo-1", http.StatusOK); strings.Contains(text, `value="restore"`) {
		t.Error("the page without a token offers acts")
	}
	post("demo-1", "restore", http.StatusOK)
	listed("/", true)
	post("demo-2", "archive", http.StatusBadRequest)
	post("demo-2", "delete", http.StatusBadRequest)
	refuse = true
	post("demo-1", "delete", http.StatusConflict)
	refuse = false
	post("demo-1", "delete", http.StatusOK)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// The page of logs shows the end of a log, in whole lines, and no other file.
func TestLogs(t *testing.T) {
	root := t.TempDir()
	dir := write(t, root, "demo-1", journaltest.New(1).Entries)
	b, server := board(t, root)
	await(t, b, 1)
	if text := get(t, server, "/runs/demo-1/logs", http.StatusOK); !strings.Contains(text, "no logs (yet)") {
		t.Errorf("without logs: %s", text)
	}
	if err := os.Mkdir(filepath.Join(dir, rundir.LogsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"logs/controller.log": "begun\n", "logs/i-1.log": "first line\n" + strings.Repeat("middle <b>\n", logShown/10) + "last \x1b[31mline\n", "secret.log": "secret",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text := get(t, server, "/runs/demo-1/logs", http.StatusOK); !strings.Contains(text, "begun") || !strings.Contains(text, "<option>i-1</option>") {
		t.Errorf("the controller's: %s", text)
	}
	text := get(t, server, "/runs/demo-1/logs?of=i-1", http.StatusOK)
	if strings.Contains(text, "first line") || !strings.Contains(text, "\">middle &lt;b&gt;\n") || strings.Contains(text, "\x1b") || !strings.Contains(text, "31mline") ||
		!strings.Contains(text, "tierml logs demo-1 i-1") {
		t.Errorf("a machine's: %.500s ... %s", text, text[len(text)-300:])
	}
	for q, want := range map[string]string{"FIRST": ">first line\n</pre>", "middle+%3C": ">middle &lt;b&gt;\n", "%3Cscript%3E": "No line has these words."} { // far above the end
		if text := get(t, server, "/runs/demo-1/logs?of=i-1&q="+q, http.StatusOK); !strings.Contains(text, want) || strings.Contains(text, "31mline") || strings.Contains(text, "<script>") {
			t.Errorf("a search for %s: %.1500s", q, text)
		}
	}
	for _, name := range []string{"i-2", "../secret", "..%2fsecret"} {
		get(t, server, "/runs/demo-1/logs?of="+name, http.StatusNotFound)
	}
}
