package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/terminal"
)

// logShown is the size of the end of a log on a page, in bytes.
const logShown = 32 << 10

// logSearched is the size of the end of a log that a search reads, in bytes.
const logSearched = 4 << 20

// controllerLog is the name of the controller's log.
const controllerLog = "controller"

// logsView is the data of logs.html.
type logsView struct {
	frame
	Run, Link string
	Names     []string // of all logs, the controller's first; in runs of programs, theirs first
	Of        string   // the one shown
	Text      string   // its end
	Cut       bool     // earlier parts exist
	Q         string   // only lines with this; empty = all
}

// logs serves the end of one log of a run: of the controller, or of the machine in of.
func (b *Board) logs(w http.ResponseWriter, request *http.Request) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	_, going := r.linesRead()
	v := logsView{frame: newFrame(going), Run: r.name(), Link: r.link(), Of: request.FormValue("of"), Q: request.FormValue("q")}
	found, err := os.ReadDir(filepath.Join(r.dir, rundir.LogsDir))
	if err != nil && !os.IsNotExist(err) {
		trouble(w, http.StatusServiceUnavailable, "Not now", fmt.Sprintf("The logs of %s cannot be listed: %v.", r.name(), err))
		return
	}
	controller := false
	for _, f := range found {
		name, isLog := strings.CutSuffix(f.Name(), ".log")
		switch {
		case !isLog || !f.Type().IsRegular():
		case name == controllerLog:
			controller = true
		default:
			v.Names = append(v.Names, name)
		}
	}
	if controller {
		v.Names = slices.Insert(v.Names, 0, controllerLog)
	}
	if r.summary(b.now()).Unit != "" { // users expect their program's output
		slices.SortStableFunc(v.Names, func(a, b string) int { return cmp.Compare(ofMachine(a), ofMachine(b)) })
	}
	if v.Of == "" && len(v.Names) > 0 {
		v.Of = v.Names[0]
	}
	if v.Of != "" && !slices.Contains(v.Names, v.Of) { // the request can only name these files
		trouble(w, http.StatusNotFound, "No such log", fmt.Sprintf("The run %s has no log of %q.", r.name(), v.Of))
		return
	}
	if v.Of != "" {
		most := int64(logShown)
		if v.Q != "" {
			most = logSearched
		}
		v.Text, v.Cut, err = tail(filepath.Join(r.dir, rundir.LogsDir, v.Of+".log"), most)
		if err != nil {
			trouble(w, http.StatusServiceUnavailable, "Not now", fmt.Sprintf("The log of %s cannot be read: %v.", v.Of, err))
			return
		}
		v.Text = b.shown(v.having())
	}
	show(w, request, "logs.html", v)
}

// ofMachine returns 0 for the output of a rank or task, and 1 for other logs.
func ofMachine(name string) int {
	if strings.HasPrefix(name, "rank-") || strings.HasPrefix(name, "task-") {
		return 0
	}
	return 1
}

// having returns the last lines of the text that contain the searched words.
func (v *logsView) having() string {
	if v.Q == "" {
		return v.Text
	}
	lines := slices.Collect(strings.Lines(v.Text))
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(strings.ToLower(line), strings.ToLower(v.Q)) })
	size := 0
	for i, line := range slices.Backward(lines) {
		if size += len(line); size > logShown {
			v.Cut = true
			return strings.Join(lines[i+1:], "")
		}
	}
	return strings.Join(lines, "")
}

// outputShown is the number of a program's last lines on its run's page.
const outputShown = 20

// output returns the last lines of a rank or task: of the first that failed, or else of the first running one, or else of the best trial or
// the first. It returns nil if there are none, or none can be read.
func (r *run) output(programs *cost.Programs, shown func(string) string) *page.Output {
	members := programs.Members
	if len(members) == 0 {
		return nil
	}
	of := 0
	if best := programs.Best(); best != nil {
		of = max(0, slices.IndexFunc(members, func(m cost.Member) bool { return m.Name == best.Name() })) // a damaged journal may name others
	}
	for _, state := range []string{journal.Failure, cost.Running} {
		if i := slices.IndexFunc(members, func(m cost.Member) bool { return m.State == state }); i >= 0 {
			of = i
			break
		}
	}
	m := members[of]
	newest := 0
	entries, _ := os.ReadDir(filepath.Join(r.dir, rundir.LogsDir)) // without a folder there is no output
	for _, e := range entries {
		number, isIts := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".log"), m.Name+".")
		if n, err := strconv.Atoi(number); isIts && err == nil && e.Type().IsRegular() {
			newest = max(newest, n)
		}
	}
	name := fmt.Sprintf("%s.%d", m.Name, newest)
	text, _, err := tail(filepath.Join(r.dir, rundir.LogsDir, name+".log"), logShown)
	if err != nil || text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return &page.Output{Of: name, Link: r.link() + "/logs?of=" + url.QueryEscape(name), Text: shown(strings.Join(lines[max(0, len(lines)-outputShown):], "\n"))}
}

// tail returns the whole lines in the last bytes of a file, and whether there is more before them.
func tail(path string, most int64) (text string, cut bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	from := max(0, info.Size()-most)
	end, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return "", false, err
	}
	if from > 0 {
		_, end, _ = bytes.Cut(end, []byte("\n"))
	}
	return terminal.Clean(string(end)), from > 0, nil
}
