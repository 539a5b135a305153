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
)

// progress is how far a program is.
type progress struct {
	mu   sync.Mutex
	step int64
	loss float64 // NaN = unknown
	any  bool
}

func (p *progress) set(step int64, loss float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.loss, p.any = step, loss, true
}

func (p *progress) get() (step int64, loss float64, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step, p.loss, p.any
}

// matcher finds progress in lines: the groups named step and loss, or the first and the second.
func (p *progress) matcher(expression string) func(line string) {
	if expression == "" {
		return nil
	}
	e, err := regexp.Compile(expression)
	if err != nil || e.NumSubexp() == 0 {
		return nil // Check has said so
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
		p.parse(value(step), value(loss))
	}
}

// parse takes a step and perhaps a loss in.
func (p *progress) parse(step, loss string) {
	s, err := strconv.ParseFloat(strings.ReplaceAll(step, ",", ""), 64)
	if err != nil || math.IsNaN(s) || math.Abs(s) > 1<<53 {
		return
	}
	l, err := strconv.ParseFloat(loss, 64)
	if err != nil {
		l = math.NaN()
	}
	p.set(int64(s), l)
}

// file reads progress from the last whole line of a file: STEP [LOSS].
func (p *progress) file(name string) {
	file, err := os.Open(name)
	if err != nil {
		return // none yet
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	text := make([]byte, min(info.Size(), 4<<10))
	if _, err := file.ReadAt(text, info.Size()-int64(len(text))); err != nil && err != io.EOF {
		return
	}
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 && len(bytes.TrimSpace(text[:i])) > 0 {
		text = text[:i] // the line after may be half written
	}
	if i := bytes.LastIndexByte(bytes.TrimSpace(text), '\n'); i >= 0 {
		text = text[i+1:]
	}
	if fields := strings.Fields(string(text)); len(fields) > 0 {
		p.parse(fields[0], strings.Join(fields[1:min(2, len(fields))], ""))
	}
}

// kept is what the Python package says about the snapshot that it took last.
type kept struct {
	Round uint64 `json:"round"`
}

// readKept reports whether the program takes snapshots, and the last one.
func readKept(name string) (k kept, ok bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return k, false
	}
	return k, json.Unmarshal(text, &k) == nil
}
