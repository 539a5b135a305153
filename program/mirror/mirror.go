// Package mirror keeps copies of a directory in a store: incremental, by content, and in generations. Files are cut
// into chunks that are named by their SHA-256, and small ones are packed together; nothing that the store has is sent
// again. A generation is a manifest that lists every file; it counts once the manifest is written, after all of its
// chunks. The two newest are kept. It knows nothing about the files' contents and writers.
//
// In the store, below state/KEY:
//
//	claim.json                  the writer: the newest attempt
//	manifests/ATTEMPT-NUMBER.json
//	chunks/SHA-256              of a chunk, or of a pack
package mirror

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

// parallel is how many chunks are hashed and sent concurrently. More would take memory and processors from the program.
const parallel = 4

// Config configures a mirror.
type Config struct {
	Store   string // URL or directory
	Key     string // name of the state below the store
	Attempt uint64 // attempt of the program that writes; newer ones take over
	Dir     string
	// Rank and Ranks describe a gang, whose ranks have a state each, with the key KeyOf(rank); 0 ranks = no gang.
	Rank, Ranks int
	KeyOf       func(rank int) string
	// Room returns an error if the disk of Dir does not have room for this many bytes; nil = no check
	// before a restore.
	Room   func(bytes int64) error
	Marker string // if set, a directory is complete only if it has a file of this name and nothing in it is newer
}

// Mirror writes the generations of one attempt. Only one goroutine may save at a time.
//
// Invariant: a generation whose manifest is in the store can be restored. Its chunks are written before the manifest, and those of the two
// newest generations are never removed.
//
// A save:
//  1. It looks at the claim: one of a newer attempt ends this writer.
//  2. A pass reads the directory until nothing changes meanwhile, at most mostPasses times, and sends the chunks that the store lacks. A
//     file that still changes keeps the version of the generation before.
//  3. It looks at the claim again, as sending takes time, and writes the manifest. From then on the generation counts.
//  4. It looks at the claim once more, and removes what only older generations used.
//
// The claim is not a lock: a newer attempt may begin between a check and a write. Manifests sort by attempt first, so
// that a late one of an older attempt never counts as the newest.
type Mirror struct {
	config Config
	writer string // distinguishes two writers of the same attempt
	number uint64
	kept   []*Manifest // valid generations in the store, newest first, at most two
	swept  bool        // the leftovers of earlier attempts are deleted
	rate   rate

	mu     sync.Mutex
	stored map[string]int64 // sizes of the chunks and packs in the store: those of kept, and those sent since
	places map[string]place // contents of the packs
	stale  map[string]bool  // packs to be replaced
	looked []*look          // sorted by path
	order  *order           // order of changes, if a marker is used; nil = unknown
}

// look is the state of a file when it was read.
type look struct {
	stat
	at    time.Time
	entry Entry
	whole bool // the file did not change while it was read, even if it has since been replaced
}

// claim is the object that names the writer.
type claim struct {
	Attempt uint64 `json:"attempt"`
	Writer  string `json:"writer"`
}

// ErrTakenOver means that the writer is no longer the newest: its state is not saved, so that the states of two
// machines never mix.
var ErrTakenOver = errors.New("a newer attempt has taken over")

// Open claims the key for an attempt. It returns ErrTakenOver if the store has a newer attempt.
func Open(ctx context.Context, config Config) (*Mirror, error) {
	if config.Key == "" || strings.ContainsAny(config.Key, "/\\") || strings.HasPrefix(config.Key, ".") {
		return nil, fmt.Errorf("%q is no name for a state", config.Key)
	}
	m := newMirror(config)
	if err := m.claim(ctx, true); err != nil {
		return nil, err
	}
	if config.Marker != "" {
		m.order = newOrder(config.Dir)
	}
	return m, nil
}

// Close ends the mirror.
func (m *Mirror) Close() { m.order.close() }

// Watch reads the system's reports of changes; call it from time to time while the program runs, before too many are
// queued.
func (m *Mirror) Watch() { m.order.now() }

func newMirror(config Config) *Mirror {
	return &Mirror{config: config, writer: rand.Text(), stored: map[string]int64{}, places: map[string]place{}}
}

// claim checks that there is no newer writer. It replaces an older attempt's claim: two attempts that started at the
// same time may have written theirs in any order.
func (m *Mirror) claim(ctx context.Context, first bool) error {
	name := location.Join(m.config.Store, "state", m.config.Key, "claim.json")
	var there claim
	text, err := readAll(ctx, name, 1<<10)
	if err == nil {
		err = json.Unmarshal(text, &there)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("who writes the state of %s: %w", m.config.Key, err)
	}
	mine := claim{Attempt: m.config.Attempt, Writer: m.writer}
	switch {
	case there == mine:
		return nil
	case there.Attempt > mine.Attempt, there.Attempt == mine.Attempt && there.Writer != "" && !first:
		return fmt.Errorf("%w: attempt %d writes the state of %s on another machine, so this machine saves nothing more of attempt %d",
			ErrTakenOver, there.Attempt, m.config.Key, mine.Attempt)
	}
	text, err = json.Marshal(mine)
	if err != nil {
		return err
	}
	return writeAll(ctx, name, text)
}

// Latest returns the newest generation that this writer saved or restored. Nil = none.
func (m *Mirror) Latest() *Manifest {
	if len(m.kept) == 0 {
		return nil
	}
	return m.kept[0]
}

// Saved is the result of a save.
type Saved struct {
	Manifest, Digest string
	Step             int64
	Bytes            int64    // of all files
	Sent             int64    // bytes of new chunks
	Left             []string // files that were being written: their previous versions, if any, still count
	Foreign          []string // links that lead out of the directory, and files with a name outside it
}

// Selection determines which files a save includes.
type Selection struct {
	Step int64
	// StepOf returns the step of the saved files, if they show it. Nil = they do not.
	StepOf func([]Entry) (step int64, ok bool)
	// Open returns the files that are open for writing, with their full names; true = only for appending. They are
	// incomplete, unless they have not changed for a while. Nil = unknown.
	Open func() map[string]bool
	// Unfinished reports whether a file must be left out in any case. Nil = none.
	Unfinished func(full string) bool
	// Last marks the final save: tidying up the store would only take time.
	Last bool
	// Round is the round of a gang in which all ranks save; 0 = none.
	Round uint64
}

// Send sends the chunks of complete files, without a new generation: what is sent ahead need not be sent at a deadline.
func (m *Mirror) Send(ctx context.Context, what Selection) (sent int64, err error) {
	p := m.pass(what)
	_, err = p.run(ctx)
	return p.sent.Load(), err
}

// Save makes a new generation of the files that are complete now.
func (m *Mirror) Save(ctx context.Context, what Selection) (Saved, error) {
	if err := m.claim(ctx, false); err != nil {
		return Saved{}, err
	}
	if !what.Last {
		m.replaces()
	}
	began, p := time.Now(), m.pass(what)
	entries, err := p.run(ctx)
	if err != nil {
		return Saved{}, fmt.Errorf("save the state of %s: %w", m.config.Key, err)
	}
	sent := p.sent.Load()
	next := &Manifest{Version: newest, Key: m.config.Key, Attempt: m.config.Attempt, Number: m.number + 1, Step: what.Step, Files: entries}
	if m.config.Ranks > 0 {
		if next.Round, next.Ranks = what.Round, m.config.Ranks; what.Last {
			next.Round = lastRound
		}
	}
	next.place(m.find)
	if what.StepOf != nil {
		if step, ok := what.StepOf(entries); ok {
			next.Step = step
		}
	}
	text, digest, err := next.encode()
	if err != nil {
		return Saved{}, err
	}
	// Sending took a while, so check the claim again.
	if err := m.claim(ctx, false); err != nil {
		return Saved{}, err
	}
	if err := writeAll(ctx, manifestName(m.config.Store, m.config.Key, next.Name()), text); err != nil {
		return Saved{}, fmt.Errorf("save the state of %s: %w", m.config.Key, err)
	}
	m.number++
	m.rate.measured(sent, time.Since(began))
	dropped := m.keep(next)
	if !what.Last {
		// The generation now counts. A failure to tidy up costs a little space, and the next save tries again.
		_ = m.tidy(ctx, dropped)
	}
	return Saved{Manifest: next.Name(), Digest: digest, Step: next.Step, Bytes: next.Bytes(), Sent: sent, Left: p.left, Foreign: p.foreign}, nil
}

// keep makes a generation the newest, and returns those that no longer count.
func (m *Mirror) keep(next *Manifest) (dropped []*Manifest) {
	m.kept = append([]*Manifest{next}, m.kept...)
	if len(m.kept) > 2 {
		dropped = m.kept[2:]
		m.kept = m.kept[:2:2]
	}
	return dropped
}

// tidy removes what only dropped generations used. The first time it also removes leftovers of earlier attempts.
func (m *Mirror) tidy(ctx context.Context, dropped []*Manifest) error {
	manifests, chunks, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range dropped {
		manifests[d.Name()] = true
	}
	for _, k := range m.kept {
		for o := range k.objects() {
			used[o] = true
		}
	}
	m.mu.Lock()
	for c := range m.stored {
		if !used[c] {
			chunks[c] = true
		}
	}
	m.mu.Unlock()
	if !m.swept {
		if err := m.leftovers(ctx, manifests, chunks, used); err != nil {
			return err
		}
	}
	// A writer that was taken over must not remove what the newer one relies on.
	if err := m.claim(ctx, false); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * parallel)
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		g.Go(func() error { return blob.Remove(ctx, manifestName(m.config.Store, m.config.Key, name)) })
	}
	for _, c := range slices.Sorted(maps.Keys(chunks)) {
		g.Go(func() error { return blob.Remove(ctx, chunkName(m.config.Store, m.config.Key, c)) })
	}
	m.mu.Lock()
	maps.DeleteFunc(m.stored, func(c string, _ int64) bool { return chunks[c] })
	maps.DeleteFunc(m.places, func(_ string, at place) bool { return chunks[at.pack] })
	m.mu.Unlock()
	if err := g.Wait(); err != nil {
		return err
	}
	m.swept = true
	return nil
}

// lacks reports whether the store does not have a chunk.
func (m *Mirror) lacks(chunk string) bool {
	_, ok := m.find(chunk)
	return !ok && chunk != hole
}

// leftovers adds objects in the store that belong to no valid generation: those of earlier attempts.
func (m *Mirror) leftovers(ctx context.Context, manifests, chunks, used map[string]bool) error {
	there, err := Manifests(ctx, m.config.Store, m.config.Key)
	if err != nil {
		return err
	}
	for _, name := range there {
		if !slices.ContainsFunc(m.kept, func(k *Manifest) bool { return k.Name() == name }) {
			manifests[name] = true
		}
	}
	objects, err := blob.List(ctx, location.Join(m.config.Store, "state", m.config.Key, "chunks"))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if c := path.Base(o.Path); !used[c] {
			chunks[c] = true
		}
	}
	return nil
}

// rate is the speed at which chunks reach the store.
type rate struct {
	mu        sync.Mutex
	perSecond float64
}

const (
	// guess is assumed before any measurement: 20 MB/s, which a small machine reaches to an object store in its region.
	guess = 20e6
	// enough is the least amount sent for the time to depend on the bytes.
	enough = 1 << 20
	// latest is the weight of a new measurement relative to all earlier ones.
	latest = 0.5
)

func (r *rate) measured(bytes int64, took time.Duration) {
	if bytes < enough || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := float64(bytes) / took.Seconds()
	if r.perSecond == 0 {
		r.perSecond = now
		return
	}
	r.perSecond += latest * (now - r.perSecond)
}

// Rate returns the measured speed of saves in bytes per second, or a cautious guess.
func (m *Mirror) Rate() float64 {
	m.rate.mu.Lock()
	defer m.rate.mu.Unlock()
	if m.rate.perSecond == 0 {
		return guess
	}
	return m.rate.perSecond
}
