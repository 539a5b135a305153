package export

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tierml/tierml/internal/atomicfile"
)

// TensorBoard writes event files: a folder for the run, and in it one for each trial.
type TensorBoard struct{}

// eventsFile is always the same, so that exporting again replaces it; TensorBoard requires "tfevents" in the name.
const eventsFile = "events.out.tfevents.0.tierml"

// Export implements Exporter. Into is the log directory that TensorBoard is started with.
func (TensorBoard) Export(_ context.Context, run Run, into string) (string, error) {
	if into == "" {
		return "", errors.New("name TensorBoard's log directory: --into DIR")
	}
	dir := filepath.Join(into, filepath.Base(run.Name))
	files := map[string]*records{"": newRecords(run.Began)}
	for _, s := range run.Series {
		if files[s.Trial] == nil {
			files[s.Trial] = newRecords(run.Began)
		}
		for _, p := range s.Points {
			files[s.Trial].add(p.At, p.Step, scalar(s.Name, p.Value))
		}
	}
	for i, e := range run.Events {
		files[""].add(e.T, int64(i), text("events", e.T.UTC().Format(time.DateTime)+" "+e.String()))
	}
	for trial, f := range files {
		to := filepath.Join(dir, trial)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return "", fmt.Errorf("making a folder for TensorBoard: %w", err)
		}
		if err := atomicfile.Write(filepath.Join(to, eventsFile), f.bytes, 0o644); err != nil {
			return "", fmt.Errorf("writing TensorBoard's events: %w", err)
		}
	}
	return dir, nil
}

// records is a file being built: each record has its length, the length's checksum, an Event, and its checksum.
type records struct{ bytes []byte }

func newRecords(began time.Time) *records {
	r := &records{}
	r.event(began, 0, 3, []byte("brain.Event:2"))
	return r
}

// add adds a value of a Summary.
func (r *records) add(at time.Time, step int64, value []byte) {
	r.event(at, step, 5, field(nil, 1, value))
}

// event adds an Event: wall_time = 1, step = 2, and file_version = 3 or summary = 5.
func (r *records) event(at time.Time, step int64, what protowire.Number, of []byte) {
	b := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixMilli())/1000))
	b = number(b, 2, uint64(step)) //nolint:gosec // a varint of an int64 has the same bits
	b = field(b, what, of)
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	r.bytes = append(r.bytes, length...)
	r.bytes = binary.LittleEndian.AppendUint32(r.bytes, masked(length))
	r.bytes = append(r.bytes, b...)
	r.bytes = binary.LittleEndian.AppendUint32(r.bytes, masked(b))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the checksum in TFRecord's form: rotated, so that sums of data that contains sums are no worse.
func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// scalar is a Summary.Value: tag = 1, simple_value = 2.
func scalar(tag string, v float64) []byte {
	b := field(nil, 1, []byte(tag))
	return protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(float32(v)))
}

// text is a Summary.Value of the plugin for text: tag = 1, tensor = 8 (dtype = 1: string, 7; shape = 2; string_val = 8), metadata = 9.
func text(tag, of string) []byte {
	shape := field(nil, 2, number(nil, 1, 1))
	tensor := field(field(number(nil, 1, 7), 2, shape), 8, []byte(of))
	metadata := field(nil, 1, field(nil, 1, []byte("text")))
	return field(field(field(nil, 1, []byte(tag)), 8, tensor), 9, metadata)
}

func field(b []byte, n protowire.Number, of []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), of)
}

func number(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}
