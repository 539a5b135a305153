package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tierml/tierml/internal/blob"
)

// fetched is how many chunks are fetched concurrently.
const fetched = 8

// Restore replaces the directory's contents by a generation. The directory changes only once everything has arrived
// intact.
func (m *Mirror) Restore(ctx context.Context, name, digest string) (*Manifest, error) {
	manifest, err := Read(ctx, m.config.Store, m.config.Key, name, digest)
	if err != nil {
		return nil, err
	}
	if manifest.Attempt > m.config.Attempt {
		return nil, fmt.Errorf("%w: manifest %s of %s is newer than attempt %d", ErrTakenOver, name, m.config.Key, m.config.Attempt)
	}
	if m.config.Room != nil {
		if err := m.config.Room(manifest.Bytes()); err != nil {
			return nil, err
		}
	}
	scratch := filepath.Join(filepath.Dir(m.config.Dir), ".tierml-restore-"+filepath.Base(m.config.Dir))
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o755)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	if err := m.fetch(ctx, manifest, scratch); err != nil {
		return nil, fmt.Errorf("restore %s of %s: %w", name, m.config.Key, err)
	}
	if err := errors.Join(os.RemoveAll(m.config.Dir), os.Rename(scratch, m.config.Dir)); err != nil {
		return nil, err
	}
	m.adopt(manifest)
	return manifest, nil
}

// adopt makes a restored generation the newest: its chunks are in the store, and its files need not be read again.
func (m *Mirror) adopt(manifest *Manifest) {
	m.kept = []*Manifest{manifest}
	now := time.Now()
	m.looked = nil
	for o := range manifest.objects() {
		m.stored[o] = 0
	}
	for _, e := range manifest.Files {
		if e.Pack > 0 {
			pack := manifest.Packs[e.Pack-1]
			m.places[e.Chunks[0]] = place{pack, e.At}
			m.stored[pack] = max(m.stored[pack], e.At+e.Size)
		}
		if s, err := statAt(unix.AT_FDCWD, filepath.Join(m.config.Dir, filepath.FromSlash(e.Path))); err == nil && s.isRegular() {
			m.looked = append(m.looked, &look{stat: s, at: now, entry: e})
		}
	}
}

func (m *Mirror) fetch(ctx context.Context, manifest *Manifest, into string) (err error) {
	root, err := os.OpenRoot(into) // nothing is written outside it, whatever the manifest says
	if err != nil {
		return err
	}
	defer root.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetched)
	packed, made := make([][]Entry, len(manifest.Packs)), map[string]bool{}
	for _, e := range manifest.Files {
		if err := prepare(root, e, made); err != nil {
			return errors.Join(err, group.Wait())
		}
		if e.Pack > 0 {
			packed[e.Pack-1] = append(packed[e.Pack-1], e)
			continue
		}
		for i, hash := range e.Chunks {
			if hash != hole {
				group.Go(func() error { return m.chunk(ctx, root, e, i) })
			}
		}
	}
	for i, entries := range packed {
		group.Go(func() error { return m.pack(ctx, root, manifest.Packs[i], entries) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return finish(root, manifest)
}

// prepare makes a directory, or a file of the right size.
func prepare(root *os.Root, e Entry, made map[string]bool) error {
	local := filepath.FromSlash(e.Path)
	dir := filepath.Dir(local)
	if e.Dir {
		dir = local
	}
	if !made[dir] {
		made[dir] = true
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if e.Dir || e.Link != "" || e.Pack > 0 {
		return nil
	}
	file, err := root.OpenFile(local, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(e.Size), file.Close())
}

// chunk fetches one chunk and writes it to its file.
func (m *Mirror) chunk(ctx context.Context, root *os.Root, e Entry, i int) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	part := (*buffer)[:min(chunkBytes, e.Size-int64(i)*chunkBytes)]
	n, err := m.object(ctx, e.Chunks[i], part)
	if err != nil {
		return err
	}
	if !isOf(part[:n], e.Chunks[i]) {
		return fmt.Errorf("%w: chunk %.12s of %s is not what was saved", ErrDamaged, e.Chunks[i], e.Path)
	}
	file, err := root.OpenFile(filepath.FromSlash(e.Path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(part[:n], int64(i)*chunkBytes)
	return errors.Join(err, file.Close())
}

// pack fetches one pack and writes the files in it.
func (m *Mirror) pack(ctx context.Context, root *os.Root, name string, entries []Entry) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	n, err := m.object(ctx, name, *buffer)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.At+e.Size > int64(n) || !isOf((*buffer)[e.At:e.At+e.Size], e.Chunks[0]) {
			return fmt.Errorf("%w: %s in pack %.12s is not what was saved", ErrDamaged, e.Path, name)
		}
		file, err := root.OpenFile(filepath.FromSlash(e.Path), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write((*buffer)[e.At : e.At+e.Size])
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// object reads an object's beginning, up to the buffer's size.
func (m *Mirror) object(ctx context.Context, name string, into []byte) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r, err := blob.Open(ctx, chunkName(m.config.Store, m.config.Key, name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: chunk %.12s is not in the store", ErrDamaged, name)
	}
	if err != nil {
		return 0, err
	}
	defer r.Close() // the data was read; an error on closing does not matter
	n, err = io.ReadFull(r, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

func isOf(content []byte, hash string) bool {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]) == hash
}

// finish makes links, and sets files' permissions and times.
func finish(root *os.Root, manifest *Manifest) error {
	for _, e := range manifest.Files {
		local := filepath.FromSlash(e.Path)
		var err error
		switch {
		case e.Link != "":
			err = root.Symlink(filepath.FromSlash(e.Link), local)
		case e.Dir:
			err = root.Chmod(local, fs.FileMode(e.Mode)|0o700)
		default:
			err = errors.Join(root.Chmod(local, fs.FileMode(e.Mode)|0o600), root.Chtimes(local, e.Changed, e.Changed))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RestoreNewest restores a generation or a later one, as a machine whose controller was lost continues to save; if it
// is damaged, it restores the newest intact one of the others. The note then says so.
func (m *Mirror) RestoreNewest(ctx context.Context, name, digest string) (manifest *Manifest, note string, err error) {
	later, err := Manifests(ctx, m.config.Store, m.config.Key)
	if err != nil {
		return nil, "", err
	}
	for _, other := range later {
		if other <= name {
			break
		}
		if manifest, err := m.Restore(ctx, other, ""); err == nil {
			return manifest, savedOn(other, name), nil
		}
	}
	manifest, err = m.Restore(ctx, name, digest)
	if !errors.Is(err, ErrDamaged) {
		return manifest, "", err
	}
	names, err2 := Manifests(ctx, m.config.Store, m.config.Key)
	if err2 != nil {
		return nil, "", errors.Join(err, err2)
	}
	for _, other := range names {
		if other == name {
			continue
		}
		if manifest, err2 := m.Restore(ctx, other, ""); err2 == nil {
			return manifest, fmt.Sprintf("%v; generation %s was restored instead", err, other), nil
		}
	}
	return nil, "", fmt.Errorf("%w; no other generation is whole either", err)
}

// Copy writes a generation to a directory for a reader: the writer does not change. Room is as in Config.
func Copy(ctx context.Context, store, key, name, digest, dir string, room func(bytes int64) error) (*Manifest, error) {
	m := newMirror(Config{Store: store, Key: key, Attempt: math.MaxUint64, Dir: dir, Room: room})
	return m.Restore(ctx, name, digest)
}
