package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/terminal"
)

// canary would set a terminal's title, change colours, return to the start of the line and reorder text.
const canary = "\x1b]0;canary\a\u009b31m\r\u202e"

// forged is a line that looks like one of ours.
const forged = "\n12:00:00  forged"

// poisoned returns a story in which every text that others control is a canary.
func poisoned(t *testing.T) journaltest.Story {
	t.Helper()
	story := journaltest.New(1)
	poison := func(text string) string { return strings.ReplaceAll(text, "xlarge", "x"+canary+"large") }
	for i, e := range story.Entries {
		e.Pool, e.From, e.To = poison(e.Pool), poison(e.From), poison(e.To)
		if e.Instance != "" {
			e.Instance += canary
		}
		if e.Why != "" {
			e.Why += canary + forged
		}
		if e.Kind == journal.Done {
			e.Log = canary + forged
		}
		if e.Details != nil {
			quoted, err := json.Marshal(canary + forged)
			if err != nil {
				t.Fatal(err)
			}
			inside := strings.Trim(string(quoted), `"`)
			e.Details = json.RawMessage(strings.NewReplacer(`"demo"`, `"demo`+inside+`"`, `"app":"mf"`, `"app":"mf`+inside+`"`,
				`"metric":"rmse"`, `"metric":"rmse`+inside+`"`).Replace(string(e.Details)))
		}
		story.Entries[i] = e
	}
	for i := range story.Machines {
		story.Machines[i].ID += canary
		story.Machines[i].Pool = poison(story.Machines[i].Pool)
	}
	return story
}

// No command lets text written by others steer the reader's terminal, in any output format or in its errors.
func TestTerminalsAreNotSteered(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	story := poisoned(t)
	home := t.TempDir()
	t.Chdir(home)
	dir := filepath.Join("runs", "demo-1")
	if err := os.MkdirAll("runs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(writeRun(t, story, len(story.Entries), story.Entries[len(story.Entries)-1].T), dir); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "logs", "controller.log"), "a line with "+canary+" and \x9b2J\n")
	write("job.yaml", "name: \"evil\\e[2J\\u202e\"\ncloud: none\n\"odd\\e[2J\": 1\n")
	write("bad.csv", "user,item,rating\n1,2,\""+canary+"\"\n")
	write("prices.csv", "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-west-1a"+canary+",c3.large,Linux/UNIX,0.02\n"+
		"2026-01-02T00:00:00Z,us-west-1a"+canary+",c3.large,Linux/UNIX,0.03\n")
	write("train.yaml", "name: small\ncloud: none\ntrain: {app: mf, data: bad.csv, clocks: 2}\n")
	calls := [][]string{
		{"events", dir}, {"events", "-o", "wide", dir}, {"events", "-o", "csv", dir}, {"events", "-o", "json", dir},
		{"top", "--once", dir}, {"top", "-o", "wide", dir}, {"top", "-o", "json", dir}, {"top", "-o", "csv", dir},
		{"ps", "-o", "wide"}, {"ps", "-o", "json"}, {"ps", "-o", "csv"},
		{"report", dir}, {"report", "-o", "json", dir}, {"report", "-o", "wide", dir}, {"report", "-o", "html", dir}, {"report", dir, dir},
		{"logs", dir}, {"logs", dir, "nobody" + canary},
		{"plan", "job.yaml"}, {"plan", "-o", "json", "no" + canary + ".yaml"}, {"run", "-y", "job.yaml"}, {"train", "train.yaml"}, {"dry-run", "job.yaml"},
		{"stop", "no" + canary}, {"events", "no" + canary}, {"top", "no" + canary}, {"fetch", "--server", "no" + canary, "x"}, {"can" + canary}, {"ps", "--can" + canary},
		{"market", "--prices", "prices.csv"}, {"ps"}, {"prices", "import", "prices.csv"}, {"leaks", "job.yaml"},
	}
	for _, args := range calls {
		t.Run(terminal.Line(strings.Join(args, " ")), func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := tierml(args, strings.NewReader(""), &out, &errOut)
			for name, text := range map[string]string{"output": out.String(), "errors": errOut.String()} {
				if terminal.Unsafe(text) {
					t.Errorf("%s, exit code %d:\n%q", name, code, tail(text, 2000))
				}
				if strings.Contains("\n"+text, forged) && !slices.Contains(args, "csv") { // where a quoted newline is part of its cell
					t.Errorf("%s have a forged line:\n%s", name, tail(text, 2000))
				}
			}
			if len(args) == 1 && args[0] == "ps" {
				return // its table has only numeric columns
			}
			if all := out.String() + errOut.String(); !strings.Contains(all, `\u001b`) && !strings.Contains(all, `\x1b`) && !strings.Contains(all, `\e[2J`) {
				t.Errorf("nothing is reported of a canary:\n%s", tail(all, 2000))
			}
			if len(args) > 2 && args[2] == "json" && code == 0 && !validJSON(out.Bytes()) {
				t.Errorf("no JSON:\n%s", tail(out.String(), 2000))
			}
		})
	}
}

func validJSON(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		if err := decoder.Decode(&value); err != nil {
			return err.Error() == "EOF"
		}
	}
}
