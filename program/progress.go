package program

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// progress is a program's progress.
type progress struct {
	mu    sync.Mutex
	last  Reading
	any   bool
	rungs []int64   // to come
	at    []Reading // at rungs, not reported yet: the first readings with a loss there
	read  int64     // offset in the file of rungs
}

// startAt sets the step of the initial state: what is saved before another is reported has that step.
func (p *progress) startAt(step int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = Reading{Step: step}
}

func (p *progress) set(r Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.any = r, true
	for r.HasLoss && len(p.rungs) > 0 && r.Step >= p.rungs[0] {
		p.at, p.rungs = append(p.at, r), p.rungs[1:]
	}
}

func (p *progress) get() (last Reading, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.any
}

// atRungs returns and clears the readings to report for rungs.
func (p *progress) atRungs() (at []Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, p.at = p.at, nil
	return at
}

// matcher finds progress in lines: the groups named step and loss, or the first and the second.
func (p *progress) matcher(expression string) func(line string) {
	if expression == "" {
		return nil
	}
	e, err := regexp.Compile(expression)
	if err != nil || e.NumSubexp() == 0 {
		return nil // checked by Check
	}
	step, loss := max(e.SubexpIndex("step"), 0), max(e.SubexpIndex("loss"), 0)
	if step == 0 && loss == 0 {
		step, loss = 1, 2
	}
	return func(line string) {
		found := e.FindStringSubmatch(line)
		if found == nil {
			return
		}
		value := func(i int) string {
			if i > 0 && i < len(found) {
				return found[i]
			}
			return ""
		}
		p.take(value(step), value(loss))
	}
}

// parse reads a step and perhaps a loss.
func parse(step, loss string) (r Reading, ok bool) {
	s, err := strconv.ParseFloat(strings.ReplaceAll(step, ",", ""), 64)
	if err != nil || math.IsNaN(s) || math.Abs(s) > 1<<53 {
		return Reading{}, false
	}
	l, err := strconv.ParseFloat(loss, 64)
	return Reading{Step: int64(s), HasLoss: err == nil, Loss: l}, true
}

func (p *progress) take(step, loss string) {
	if r, ok := parse(step, loss); ok {
		p.set(r)
	}
}

// files reads progress from a file, and the Python package's notes at rungs. The latter was written first: the first file is therefore read
// first, so that no later step is attributed to the rung.
func (p *progress) files(name, rungs string) {
	r, ok := readingOf(name)
	if rungs != "" {
		p.rungFile(rungs)
	}
	if ok {
		p.set(r)
	}
}

// openPlain opens a regular file that the program writes. Nil = none; opening a pipe would wait for the program.
func openPlain(name string) (*os.File, os.FileInfo) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, nil
	}
	return file, info
}

// readingOf reads the last complete line of a file: STEP [LOSS].
func readingOf(name string) (r Reading, ok bool) {
	file, info := openPlain(name)
	if file == nil {
		return r, false // none yet
	}
	defer file.Close()
	text := make([]byte, min(info.Size(), 4<<10))
	if _, err := file.ReadAt(text, info.Size()-int64(len(text))); err != nil && err != io.EOF {
		return r, false
	}
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 && len(bytes.TrimSpace(text[:i])) > 0 {
		text = text[:i] // the last line may be incomplete
	}
	if i := bytes.LastIndexByte(bytes.TrimSpace(text), '\n'); i >= 0 {
		text = text[i+1:]
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return r, false
	}
	return parse(fields[0], strings.Join(fields[1:min(2, len(fields))], ""))
}

// rungFile reads what was appended to a file: lines of STEP LOSS.
func (p *progress) rungFile(name string) {
	file, _ := openPlain(name)
	if file == nil {
		return // none yet
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, p.read, 64<<10))
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return // half written
		}
		p.read += int64(len(line))
		if fields := strings.Fields(string(line)); len(fields) == 2 {
			p.take(fields[0], fields[1])
		}
	}
}

// kept is the Python package's note about its last snapshot.
type kept struct {
	Round uint64 `json:"round"`
}

// readKept reports whether the program takes snapshots, and the last one.
func readKept(name string) (k kept, ok bool) {
	file, _ := openPlain(name)
	if file == nil {
		return k, false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return k, false
	}
	return k, json.Unmarshal(text, &k) == nil
}
