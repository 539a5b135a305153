package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

// chunkBytes is the size of files' chunks: large enough that a store's time per object does not matter, small enough
// that a change of a few rows of a table sends little.
const chunkBytes = 4 << 20

// mostManifest bounds a manifest's memory: 64 characters per chunk of 4 MiB allow 16 TB.
const mostManifest = 256 << 20

// newest is the version of manifests that this program writes. Version 1 had neither packs nor holes.
const newest = 2

// hole represents a chunk for which a file has no data.
const hole = ""

// Manifest is one generation of a directory: everything in it at one moment. It never changes.
type Manifest struct {
	Version int     `json:"version"`
	Key     string  `json:"key"`
	Attempt uint64  `json:"attempt"`
	Number  uint64  `json:"number"` // counts the saves of an attempt
	Step    int64   `json:"step,omitempty"`
	Files   []Entry `json:"files"` // sorted by path
	// For a gang: the ranks' saves in one round of one attempt are a set, if all ranks saved.
	Round uint64 `json:"round,omitempty"`
	Ranks int    `json:"ranks,omitempty"`
	// Packs are the objects that entries refer to.
	Packs []string `json:"packs,omitempty"`
}

// Entry is a file, a directory or a link.
type Entry struct {
	Path    string    `json:"path"` // below the directory, with slashes
	Mode    uint32    `json:"mode"` // permissions
	Changed time.Time `json:"changed,omitzero"`
	Size    int64     `json:"size,omitempty"`
	Chunks  []string  `json:"chunks,omitempty"` // SHA-256 of each; empty = a hole
	Pack    int       `json:"pack,omitempty"`   // 1 = its only chunk is in the manifest's first pack; 0 = each chunk is an object of its own
	At      int64     `json:"at,omitempty"`     // offset in the pack
	Link    string    `json:"link,omitempty"`
	Dir     bool      `json:"dir,omitempty"`
}

// Name returns the manifest's name below its key. Names sort by age: an attempt's saves come after all of the attempts
// before it.
func (m *Manifest) Name() string { return fmt.Sprintf("%08d-%08d", m.Attempt, m.Number) }

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for _, e := range m.Files {
		n += e.Size
	}
	return n
}

// entry returns a file's entry in the generation, or an empty one.
func (m *Manifest) entry(name string) Entry {
	if m == nil {
		return Entry{}
	}
	i, found := slices.BinarySearchFunc(m.Files, name, func(e Entry, name string) int { return strings.Compare(e.Path, name) })
	if !found {
		return Entry{}
	}
	return m.Files[i]
}

// place records where the chunks are.
func (m *Manifest) place(find func(chunk string) (place, bool)) {
	m.Packs = nil
	numbers, pack, number := map[string]int{}, "", 0
	for i := range m.Files {
		e := &m.Files[i]
		e.Pack, e.At = 0, 0
		if len(e.Chunks) != 1 || e.Chunks[0] == hole {
			continue
		}
		at, ok := find(e.Chunks[0])
		if !ok || at.pack == e.Chunks[0] {
			continue
		}
		if at.pack != pack {
			if pack, number = at.pack, numbers[at.pack]; number == 0 {
				m.Packs = append(m.Packs, pack)
				number = len(m.Packs)
				numbers[pack] = number
			}
		}
		e.Pack, e.At = number, at.at
	}
}

// objects yields the generation's objects, some more than once.
func (m *Manifest) objects() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, pack := range m.Packs {
			if !yield(pack) {
				return
			}
		}
		for _, e := range m.Files {
			for _, c := range e.Chunks {
				if e.Pack == 0 && c != hole && !yield(c) {
					return
				}
			}
		}
	}
}

// encode returns the manifest as stored, and its digest. Encoding many entries takes a while, so parts are encoded
// concurrently.
func (m *Manifest) encode() (text []byte, digest string, err error) {
	const files = `"files":[` // occurs once: within a name the quotes would be escaped
	whole := *m
	whole.Files = []Entry{}
	text, err = json.Marshal(whole)
	if err != nil {
		return nil, "", err
	}
	before, after, _ := bytes.Cut(text, []byte(files))
	parts := make([][]byte, runtime.GOMAXPROCS(0))
	var group errgroup.Group
	for i := range parts {
		group.Go(func() (err error) {
			from, to := i*len(m.Files)/len(parts), (i+1)*len(m.Files)/len(parts)
			part := make([]byte, 0, (to-from)*usualEntry)
			for n := from; n < to && err == nil; n++ {
				if n > 0 {
					part = append(part, ',')
				}
				part, err = m.Files[n].append(part)
			}
			parts[i] = part
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, "", err
	}
	text = bytes.Join(slices.Concat([][]byte{before, []byte(files)}, parts, [][]byte{after}), nil)
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}

// usualEntry is an entry's approximate size in bytes.
const usualEntry = 256

// append adds an entry as json.Marshal writes it; for files of one chunk, as most are, in a fraction of the time.
func (e Entry) append(text []byte) ([]byte, error) {
	if e.Size == 0 || len(e.Chunks) != 1 || e.Link != "" || e.Dir || !plain(e.Path) || !plain(e.Chunks[0]) {
		entry, err := json.Marshal(e)
		return append(text, entry...), err
	}
	text = append(text, `{"path":"`...)
	text = append(text, e.Path...)
	text = append(text, `","mode":`...)
	text = strconv.AppendUint(text, uint64(e.Mode), 10)
	if !e.Changed.IsZero() {
		var err error
		if text, err = e.Changed.AppendText(append(text, `,"changed":"`...)); err != nil {
			return nil, err
		}
		text = append(text, '"')
	}
	text = strconv.AppendInt(append(text, `,"size":`...), e.Size, 10)
	text = append(text, `,"chunks":["`...)
	text = append(text, e.Chunks[0]...)
	text = append(text, `"]`...)
	if e.Pack != 0 {
		text = strconv.AppendInt(append(text, `,"pack":`...), int64(e.Pack), 10)
	}
	if e.At != 0 {
		text = strconv.AppendInt(append(text, `,"at":`...), e.At, 10)
	}
	return append(text, '}'), nil
}

// plain reports whether JSON writes a string unchanged.
func plain(s string) bool {
	for i := range len(s) {
		if !asItIs[s[i]] {
			return false
		}
	}
	return true
}

// asItIs are the characters that JSON does not escape.
var asItIs = func() (is [256]bool) {
	for c := ' '; c <= '~'; c++ {
		is[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return is
}()

// ErrDamaged means that a generation cannot be restored as it was saved.
var ErrDamaged = errors.New("the saved state is damaged")

// Read reads one of a key's manifests. If a digest is given, the manifest must have it.
func Read(ctx context.Context, store, key, name, digest string) (*Manifest, error) {
	text, err := readAll(ctx, manifestName(store, key, name), mostManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: manifest %s of %s is not in the store", ErrDamaged, name, key)
	}
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: manifest %s of %s: %w", ErrDamaged, name, key, err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); digest != "" && got != digest {
		return nil, fmt.Errorf("%w: manifest %s of %s has digest %.12s, but %.12s was saved", ErrDamaged, name, key, got, digest)
	}
	if m.Version < 1 || m.Version > newest {
		return nil, fmt.Errorf("manifest %s of %s has version %d, which this program does not know: use the version of TierML that saved it", name, key, m.Version)
	}
	if m.Key != key || m.Name() != name {
		return nil, fmt.Errorf("%w: manifest %s of %s calls itself %s of %s", ErrDamaged, name, key, m.Name(), m.Key)
	}
	return &m, m.check()
}

// check refuses entries that would be written outside the directory, and entries that contradict themselves.
func (m *Manifest) check() error {
	for _, e := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
			return fmt.Errorf("%w: %q is outside of the directory", ErrDamaged, e.Path)
		}
		if e.Link != "" && !localLink(e.Path, e.Link) {
			return fmt.Errorf("%w: link %s leads to %s, outside of the directory", ErrDamaged, e.Path, e.Link)
		}
		if want := (e.Size + chunkBytes - 1) / chunkBytes; e.Size < 0 || int64(len(e.Chunks)) != want {
			return fmt.Errorf("%w: %s of %d bytes has %d chunks", ErrDamaged, e.Path, e.Size, len(e.Chunks))
		}
		if e.Pack < 0 || e.Pack > len(m.Packs) || e.Pack > 0 && (len(e.Chunks) != 1 || e.At < 0 || e.At+e.Size > chunkBytes) {
			return fmt.Errorf("%w: %s of %d bytes cannot be at %d in pack %d of %d", ErrDamaged, e.Path, e.Size, e.At, e.Pack, len(m.Packs))
		}
		for _, c := range e.Chunks {
			if !isSum(c) && (c != hole || e.Pack > 0) {
				return fmt.Errorf("%w: %s has a chunk %q", ErrDamaged, e.Path, c)
			}
		}
	}
	for _, pack := range m.Packs {
		if !isSum(pack) {
			return fmt.Errorf("%w: there is a pack %q", ErrDamaged, pack)
		}
	}
	return nil
}

func isSum(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// localLink reports whether a link stays within the directory.
func localLink(from, to string) bool {
	return !path.IsAbs(to) && filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(from), to)))
}

// Manifests returns the names of a key's manifests, newest first.
func Manifests(ctx context.Context, store, key string) ([]string, error) {
	objects, err := blob.List(ctx, location.Join(store, "state", key, "manifests"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		if name, ok := strings.CutSuffix(o.Path, ".json"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

func manifestName(store, key, name string) string {
	return location.Join(store, "state", key, "manifests", name+".json")
}

func chunkName(store, key, hash string) string {
	return location.Join(store, "state", key, "chunks", hash)
}

func readAll(ctx context.Context, name string, most int64) ([]byte, error) {
	r, err := blob.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, most)
	}
	return text, nil
}

func writeAll(ctx context.Context, name string, text []byte) error {
	return blob.Write(ctx, name, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	})
}
