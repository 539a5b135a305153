package fakecloud

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tierml/tierml/market"
)

// RecordKind names what a launch record is about.
type RecordKind string

// Every kind of launch record.
const (
	Opened   RecordKind = "open"   // the cloud begins: region, rules, clock
	Launched RecordKind = "launch" // id, pool, bid, launched
	Ended    RecordKind = "end"    // id, ended, by, reason
	Tick     RecordKind = "tick"   // the cloud is alive
	Closed   RecordKind = "close"  // the cloud has ended everything
)

// Record is one line of the launch records. Launched and Ended are whole seconds of market time.
type Record struct {
	T    time.Time  `json:"t"` // market time of writing
	Kind RecordKind `json:"kind"`

	ID       string         `json:"id,omitempty"`
	Pool     market.Pool    `json:"pool,omitzero"`
	Bid      market.USD     `json:"bid,omitzero"` // 0 for on-demand
	Launched time.Time      `json:"launched,omitzero"`
	Ended    time.Time      `json:"ended,omitzero"`
	By       market.EndedBy `json:"by,omitempty"`
	Reason   string         `json:"reason,omitempty"`

	Region string `json:"region,omitempty"`
	Rules  string `json:"rules,omitempty"`
	Clock  string `json:"clock,omitempty"` // clock.Mapping
}

// ReadRecords reads launch records, including those of a cloud that was killed: a truncated last line is skipped.
func ReadRecords(r io.Reader) ([]Record, error) {
	lines := bufio.NewReader(r)
	var records []Record
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, nil // a line without an end is incomplete
		}
		if err != nil {
			return nil, fmt.Errorf("launch records: %w", err)
		}
		var record Record
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&record); err != nil {
			return nil, fmt.Errorf("launch records line %d: %w", number, err)
		}
		records = append(records, record)
	}
}

// recorder appends records to a file, and keeps those that bills need.
type recorder struct {
	file    io.WriteCloser // nil = memory only
	pending []byte         // after a full disk: later records follow the rest of an incomplete line
	kept    []Record
}

// openRecorder opens the file for appending. An incomplete line of an earlier cloud that was killed is removed, and its records are kept:
// they belong to the bill.
func openRecorder(path string) (*recorder, error) {
	if path == "" {
		return &recorder{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	w := &recorder{file: file}
	if err := w.takeOver(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

func (w *recorder) takeOver(file *os.File) error {
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if w.kept, err = ReadRecords(bytes.NewReader(text[:whole])); err != nil {
		return err
	}
	if whole == len(text) {
		return nil
	}
	return file.Truncate(int64(whole))
}

// sessions counts the clouds that wrote before.
func (w *recorder) sessions() uint64 {
	var n uint64
	for _, r := range w.kept {
		if r.Kind == Opened {
			n++
		}
	}
	return n
}

func (w *recorder) write(r Record) error {
	r.T = r.T.UTC()
	if r.Kind != Tick {
		w.kept = append(w.kept, r)
	}
	if w.file == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.pending = append(append(w.pending, line...), '\n')
	n, err := w.file.Write(w.pending)
	w.pending = w.pending[n:]
	return err
}

// all returns the records until now.
func (w *recorder) all(now time.Time) []Record {
	return append(w.kept[:len(w.kept):len(w.kept)], Record{T: now, Kind: Tick})
}

func (w *recorder) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
