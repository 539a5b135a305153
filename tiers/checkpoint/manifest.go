package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
)

// A checkpoint that is taken while training continues is several objects in a folder of its own, below the run's place, and a manifest next
// to the folder. The manifest is written last, atomically: everything it names is complete.
//
//	PLACE/clock-000000120-1.1/i-0a1b2c.rows     the partitions that a machine backs up
//	PLACE/clock-000000120-1.1-SHA256.json       the manifest
//
// The manifest's name contains the SHA-256 of its content, and the manifest that of each part. So a reader with a name, from the run's
// journal or its controller, reads what was written, or nothing: others may be allowed to write in the same store.

// manifestForm is the form of manifests and parts.
const manifestForm = 2

const manifestSuffix = ".json"

// largestManifest exceeds what any job's partitions need; nothing larger is read.
const largestManifest = 32 << 20

// Manifest describes a checkpoint's parts.
type Manifest struct {
	Form   int      `json:"form"`
	Run    string   `json:"run"`
	Clock  ps.Clock `json:"clock"`
	Folder string   `json:"folder"` // next to the manifest
	Bytes  int64    `json:"bytes"`
	Schema Schema   `json:"schema"`
	Parts  []Part   `json:"parts"` // by partition
}

// Schema is the part of a job's schema that decides whether a checkpoint matches it.
type Schema struct {
	Tables     []ps.Table `json:"tables"`
	Partitions int        `json:"partitions"`
	Seed       uint64     `json:"seed"`
}

func schemaOf(s *ps.Schema) Schema {
	return Schema{Tables: s.Tables, Partitions: s.Partitions, Seed: s.Seed}
}

// IsManifest reports whether a checkpoint's name is that of a manifest, not of a single file (Save).
func IsManifest(name string) bool {
	name, _, _ = strings.Cut(name, "?")
	return strings.HasSuffix(name, manifestSuffix)
}

// NewManifest combines the parts of all machines. Each partition must occur once.
func NewManifest(run string, schema *ps.Schema, clock ps.Clock, folder string, parts []Part) (*Manifest, error) {
	m := &Manifest{Form: manifestForm, Run: run, Clock: clock, Folder: folder, Schema: schemaOf(schema), Parts: slices.Clone(parts)}
	slices.SortFunc(m.Parts, func(a, b Part) int { return cmp.Compare(a.Partition, b.Partition) })
	for _, p := range m.Parts {
		m.Bytes += p.Bytes
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	switch {
	case m.Form != manifestForm:
		return fmt.Errorf("its form is %d; this program knows %d", m.Form, manifestForm)
	case m.Clock < 0 || m.Folder == "" || strings.ContainsAny(m.Folder, "/\\"):
		return fmt.Errorf("clock %d in folder %q", m.Clock, m.Folder)
	case len(m.Parts) != m.Schema.Partitions:
		return fmt.Errorf("it has %d partitions of %d", len(m.Parts), m.Schema.Partitions)
	}
	for i, p := range m.Parts {
		if p.Partition != ps.Partition(i) || p.Object == "" || strings.ContainsAny(p.Object, "/\\") || p.Offset < 0 || p.Bytes < pieceHeader {
			return fmt.Errorf("its part %d is %+v", i, p)
		}
	}
	return nil
}

// Write stores the manifest below a place, and returns its name.
func (m *Manifest) Write(ctx context.Context, place string) (string, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", fmt.Errorf("writing a checkpoint's manifest: %w", err)
	}
	text = append(text, '\n')
	if len(text) > largestManifest {
		return "", fmt.Errorf("writing a checkpoint's manifest: %d partitions make it larger than %d bytes", len(m.Parts), largestManifest)
	}
	name := location.Join(place, m.Folder+"-"+sumOf(text)+manifestSuffix)
	err = blob.Write(ctx, name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("writing a checkpoint's manifest: %w", err)
	}
	return name, nil
}

// ReadManifest reads the result of Write.
func ReadManifest(ctx context.Context, name string) (*Manifest, error) {
	m, err := readManifest(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint %s: %w", name, err)
	}
	return m, nil
}

func readManifest(ctx context.Context, name string) (_ *Manifest, err error) {
	file, err := blob.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, largestManifest+1))
	if err != nil {
		return nil, err
	}
	folder, want := splitName(Name(name))
	switch got := sumOf(text); {
	case len(text) > largestManifest:
		return nil, damaged(fmt.Errorf("it has more than %d bytes", largestManifest))
	case want == "" && formOf(text) > 0 && formOf(text) < manifestForm:
		return nil, fmt.Errorf("%w: its form is %d; this one reads form %d", ErrEarlier, formOf(text), manifestForm)
	case want == "":
		return nil, damaged(errors.New("its name has no checksum"))
	case got != want:
		return nil, wrongChecksum(got, want)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	m := &Manifest{}
	if err := decoder.Decode(m); err != nil {
		return nil, damaged(err)
	}
	if err := m.check(); err != nil {
		return nil, damaged(err)
	}
	if m.Folder != folder {
		return nil, damaged(fmt.Errorf("its folder is %s", m.Folder))
	}
	return m, nil
}

// formOf returns the form that a manifest declares, 0 if none.
func formOf(text []byte) int {
	var m struct{ Form int }
	_ = json.Unmarshal(text, &m) // whatever else it contains
	return m.Form
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Name returns the name of a manifest below its place.
func Name(manifest string) string { return path.Base(withoutQuery(manifest)) }

// splitName parses a manifest's name. For a name of another form the checksum is empty, which never matches.
func splitName(name string) (folder, sum string) {
	name = strings.TrimSuffix(name, manifestSuffix)
	at := len(name) - 2*sha256.Size - 1
	if at < 0 || name[at] != '-' {
		return name, ""
	}
	return name[:at], name[at+1:]
}

func withoutQuery(name string) string {
	if location.IsURL(name) {
		name, _, _ = strings.Cut(name, "?")
	}
	return name
}

// Verify reads all of a checkpoint and compares its checksums. The error is ErrDamaged if something differs from what was written.
func (m *Manifest) Verify(ctx context.Context, manifest string) error {
	objects := map[string][]Part{}
	for _, p := range m.Parts {
		objects[p.Object] = append(objects[p.Object], p)
	}
	for _, object := range slices.Sorted(maps.Keys(objects)) {
		parts := objects[object]
		slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Offset, b.Offset) })
		for i, p := range parts[1:] {
			if p.Offset != parts[i].Offset+parts[i].Bytes {
				return fmt.Errorf("reading the checkpoint %s: %w", manifest, damaged(fmt.Errorf("the parts of %s do not follow each other", object)))
			}
		}
		if err := verify(ctx, folderOf(manifest), parts); err != nil {
			return fmt.Errorf("reading the checkpoint %s: %w", manifest, err)
		}
	}
	return nil
}

// LoadParts reads partitions of a checkpoint, which must be at this clock and of a job with this schema. Index: parts.
func LoadParts(ctx context.Context, manifest string, schema *ps.Schema, clock ps.Clock, parts []ps.Partition) ([]*ps.Block, error) {
	m, err := ReadManifest(ctx, manifest)
	if err != nil {
		return nil, err
	}
	switch {
	case !reflect.DeepEqual(m.Schema, schemaOf(schema)):
		return nil, fmt.Errorf("the checkpoint %s does not fit this job: its tables differ", manifest)
	case m.Clock != clock:
		return nil, fmt.Errorf("the checkpoint %s is of clock %d, not %d", manifest, m.Clock, clock)
	}
	blocks := make([]*ps.Block, len(parts))
	for i, p := range parts {
		if int(p) >= len(m.Parts) {
			return nil, fmt.Errorf("the checkpoint %s has no partition %d", manifest, p)
		}
		if blocks[i], err = loadPart(ctx, folderOf(manifest), schema, m.Parts[p]); err != nil {
			return nil, fmt.Errorf("reading partition %d of the checkpoint %s: %w", p, manifest, err)
		}
	}
	return blocks, nil
}

// Found is a complete checkpoint.
type Found struct {
	Manifest string // its name
	Clock    ps.Clock
	Bytes    int64
}

// Newest returns the newest checkpoint below a place that is complete and undamaged, which it reads completely, and then the older ones,
// unread. It considers only known names: anybody with write access may have added others. Doubts say why newer ones are missing.
func Newest(ctx context.Context, place string, known func(name string) bool) (found []Found, doubts []error, err error) {
	all, doubts, err := List(ctx, place, known)
	if err != nil {
		return nil, doubts, err
	}
	for i, f := range all {
		m, err := ReadManifest(ctx, f.Manifest)
		if err == nil {
			err = m.Verify(ctx, f.Manifest)
		}
		switch {
		case err == nil:
			return all[i:], doubts, nil
		case !errors.Is(err, ErrDamaged):
			return nil, doubts, err // it may be intact, but cannot be read now
		}
		doubts = append(doubts, err)
	}
	return nil, doubts, nil
}

// List returns the complete checkpoints below a place whose manifests' names are known (nil: all), the newest first. It skips those that
// cannot be read, or lack a part; doubts says why.
func List(ctx context.Context, place string, known func(name string) bool) (found []Found, doubts []error, err error) {
	objects, err := blob.List(ctx, place)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	sizes := map[string]int64{}
	for _, o := range objects {
		sizes[o.Path] = o.Bytes
	}
	for _, name := range manifests(objects, known) {
		m, err := ReadManifest(ctx, location.Join(place, name))
		if err == nil {
			err = m.lacks(sizes)
		}
		if err != nil {
			doubts = append(doubts, err)
			continue
		}
		found = append(found, Found{Manifest: location.Join(place, name), Clock: m.Clock, Bytes: m.Bytes})
	}
	return found, doubts, nil
}

// manifests returns the names of the manifests among objects, the newest first. That is the order in which they were written: the one with
// the highest clock may be damaged, and the run have continued from an older one.
func manifests(objects []blob.Object, known func(name string) bool) (names []string) {
	for _, o := range objects {
		if strings.HasPrefix(o.Path, "clock-") && IsManifest(o.Path) && !strings.Contains(o.Path, "/") && (known == nil || known(o.Path)) {
			names = append(names, o.Path)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return slices.Compare(writtenAt(b), writtenAt(a)) })
	return names
}

// writtenAt returns the order of manifests: by the start of the run, its generation, and the clock.
func writtenAt(name string) []int {
	var clock, start, generation int
	_, _ = fmt.Sscanf(name, "clock-%d-%d.%d", &clock, &start, &generation) // names of another form are the oldest
	return []int{start, generation, clock}
}

func (m *Manifest) lacks(sizes map[string]int64) error {
	for _, p := range m.Parts {
		if size, ok := sizes[m.Folder+"/"+p.Object]; !ok || size < p.Offset+p.Bytes {
			return fmt.Errorf("the checkpoint %s lacks its partition %d", m.Folder, p.Partition)
		}
	}
	return nil
}

// Prune removes all checkpoints below a place except the newest ones of known names (nil: all), and the remains of incomplete ones. None
// may be in progress meanwhile.
func Prune(ctx context.Context, place string, keep int, known func(name string) bool) error {
	objects, err := blob.List(ctx, place)
	if err != nil {
		return fmt.Errorf("removing old checkpoints: %w", err)
	}
	kept := map[string]bool{}
	var failed []error
	for i, name := range manifests(objects, known) {
		if i == keep {
			break
		}
		folder, _ := splitName(name)
		kept[folder], kept[name] = true, true
	}
	for _, name := range manifests(objects, nil) {
		if kept[name] {
			continue
		}
		failed = append(failed, blob.Remove(ctx, location.Join(place, name))) // first: it names what is removed next
	}
	for _, o := range objects {
		folder, _, below := strings.Cut(o.Path, "/")
		if below && strings.HasPrefix(folder, "clock-") && !kept[folder] {
			failed = append(failed, blob.Remove(ctx, location.Join(place, o.Path)))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("removing old checkpoints: %w", err)
	}
	return nil
}

// folderOf returns a checkpoint's folder, which is next to its manifest.
func folderOf(manifest string) string {
	folder, _ := splitName(Name(manifest))
	return location.Beside(manifest, folder)
}
