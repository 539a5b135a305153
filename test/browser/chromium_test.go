package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience is how long the browser gets for one answer.
const patience = time.Minute

// tab is a page in a headless Chromium, controlled by the DevTools protocol over two pipes: JSON messages, each ended by a zero byte
// (https://chromedevtools.github.io/devtools-protocol/).
type tab struct {
	t        *testing.T
	to       *os.File
	messages chan message // closed when the browser ends
	session  string
	last     int
	said     []string // warnings and errors of the console and the log
}

type message struct {
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Session string          `json:"sessionId"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// openTab starts the browser that TIERML_CHROMIUM names.
func openTab(t *testing.T) *tab {
	t.Helper()
	program := os.Getenv("TIERML_CHROMIUM")
	if program == "" {
		t.Skip("TIERML_CHROMIUM does not name a browser; run: make test-browser")
	}
	theirIn, to, err := os.Pipe()
	fail(t, err)
	from, theirOut, err := os.Pipe()
	fail(t, err)
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4 in the browser
	fail(t, cmd.Start())
	_, _ = theirIn.Close(), theirOut.Close()

	b := &tab{t: t, to: to, messages: make(chan message)}
	go b.listen(from)
	t.Cleanup(func() {
		_ = b.to.Close() // the browser ends without a client
		for range b.messages {
			continue
		}
		_, _ = cmd.Process.Kill(), cmd.Wait()
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *tab) listen(from *os.File) {
	defer close(b.messages)
	defer func() { _ = from.Close() }()
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			b.messages <- m
		}
	}
}

// call sends a command and waits for its answer; events that arrive meanwhile are noted.
func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	order := map[string]any{"id": b.last, "method": method, "params": params}
	if params == nil {
		order["params"] = struct{}{}
	}
	if b.session != "" {
		order["sessionId"] = b.session
	}
	text, err := json.Marshal(order)
	fail(b.t, err)
	_, err = b.to.Write(append(text, 0))
	fail(b.t, err)
	m := b.await(method, func(m message) bool { return m.ID == b.last })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error)
	}
	if result != nil {
		fail(b.t, json.Unmarshal(m.Result, result))
	}
}

func (b *tab) await(what string, wanted func(message) bool) message {
	b.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case m, open := <-b.messages:
			if !open {
				b.t.Fatalf("the browser ended before %s", what)
			}
			b.note(m)
			if wanted(m) {
				return m
			}
		case <-deadline:
			b.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// note keeps errors and warnings of the page.
func (b *tab) note(m message) {
	var params struct {
		Type  string
		Entry struct{ Level, Text string }
	}
	_ = json.Unmarshal(m.Params, &params)
	switch {
	case m.Method == "Runtime.exceptionThrown",
		m.Method == "Runtime.consoleAPICalled" && (params.Type == "error" || params.Type == "warning"),
		m.Method == "Log.entryAdded" && (params.Entry.Level == "error" || params.Entry.Level == "warning"):
		b.said = append(b.said, string(m.Params))
	}
}

// open loads an address on a screen of the given width.
func (b *tab) open(url string, width int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.await("the page", func(m message) bool { return m.Method == "Page.loadEventFired" })
}

// eval returns the value of an expression in the page.
func (b *tab) eval(expression string, value any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	fail(b.t, json.Unmarshal(answer.Result.Value, value))
}

// until waits for an expression to be true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		var is bool
		if b.eval(expression, &is); is {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// picture saves the whole page as a PNG.
func (b *tab) picture(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	fail(b.t, err)
	fail(b.t, os.WriteFile(file, png, 0o644))
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quoted returns a JavaScript string.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return string(text)
}
