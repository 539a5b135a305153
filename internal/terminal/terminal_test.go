package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, text, line string }{
		{"", "", ""},
		{"plain\tin\ntwo", "plain\tin\ntwo", `plain\tin\ntwo`},
		{"Zürich 東京 👩‍🔬 עברית", "Zürich 東京 👩‍🔬 עברית", "Zürich 東京 👩‍🔬 עברית"},
		{"\x1b]0;x\a\x1b[2J", `\u001b]0;x\u0007\u001b[2J`, `\u001b]0;x\u0007\u001b[2J`},
		{"a\rb\b\x7f\x00", `a\u000db\u0008\u007f\u0000`, `a\u000db\u0008\u007f\u0000`},
		{"\u009b31m\u0085", `\u009b31m\u0085`, `\u009b31m\u0085`},
		{"\x9b31m\xff\xc3", `\x9b31m\xff\xc3`, `\x9b31m\xff\xc3`},
		{"\u202etxt.exe\u2066\u200f\u2028", `\u202etxt.exe\u2066\u200f\u2028`, `\u202etxt.exe\u2066\u200f\u2028`},
		{"\uFFFD", "\uFFFD", "\uFFFD"},
	} {
		if got := Clean(c.in); got != c.text {
			t.Errorf("%q: %q, want %q", c.in, got, c.text)
		}
		if got := Line(c.in); got != c.line {
			t.Errorf("line of %q: %q, want %q", c.in, got, c.line)
		}
	}
}

// However a text is split into writes, the output is the same.
func TestWriterHoldsPartsOfCharacters(t *testing.T) {
	text := "Zü\u009b東京 👩‍🔬\x1b[1m\xff\xf0\x9f end\n\xe6\x9d"
	want := Clean(text)
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("%d, %v", got, err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("in pieces of %d: %q, %v; want %q", size, out.String(), err, want)
		}
	}
}

// JSON keeps its meaning behind the writer.
func TestWriterKeepsJSON(t *testing.T) {
	value := map[string]string{"\x7f": "\x1b[2J \u009b \u202e \u2028 \\ \" 東京\n\t"}
	var out bytes.Buffer
	if err := json.NewEncoder(NewWriter(&out)).Encode(value); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["\x7f"] != value["\x7f"] || Unsafe(out.String()) {
		t.Errorf("%q, %v from %q", got, err, out.String())
	}
}

func TestText(t *testing.T) {
	var text Text
	_, _ = text.WriteString("a\x1b[2J")
	text.Paint("\x1b[1m", "b\x1b[3J")
	text.Paint("", "c\x1b[4J")
	if got := text.String(); got != "a\\u001b[2J\x1b[1mb\\u001b[3J\x1b[0mc\\u001b[4J" {
		t.Errorf("%q", got)
	}
	if strings.Count(text.String(), "\x1b") != 2 {
		t.Error("a style is missing")
	}
}
