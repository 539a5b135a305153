package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

// Stores charge and wait for each object, so small files are sent together: a pack is an object of many files,
// concatenated. It is stored like a chunk, and never changed. A pack that is mostly unused is replaced, by packing its
// files again.

const (
	// small is the largest size of a file in a pack.
	small = 256 << 10
	// mostThin is how many packs may be less than a quarter full before their files are packed together.
	mostThin = 16
)

// place is the position of a packed file in the store.
type place struct {
	pack string
	at   int64
}

// packer fills packs. It is for one goroutine; the group sends the packs.
type packer struct {
	*pass
	group   *errgroup.Group
	buffer  *[]byte // nil = no pack is open
	filled  int64
	parts   map[string]int64 // in the open pack: where each part begins
	pending map[string]bool  // parts of packs that are being sent
}

// read adds a file, and returns its chunk. Whole = the file still had its full length.
func (k *packer) read(ctx context.Context, file *os.File, size int64) (hash string, whole bool, err error) {
	if k.buffer != nil && k.filled+size > chunkBytes {
		k.flush(ctx)
	}
	if k.buffer == nil {
		k.buffer, k.filled, k.parts = buffers.Get().(*[]byte), 0, map[string]int64{}
	}
	part := (*k.buffer)[k.filled : k.filled+size]
	if whole, err := readFull(file, part); !whole {
		return "", false, err
	}
	sum := sha256.Sum256(part)
	hash = hex.EncodeToString(sum[:])
	if !k.pending[hash] && !k.fresh(hash) {
		k.parts[hash], k.pending[hash] = k.filled, true
		k.filled += size
	}
	return hash, true, nil
}

// flush has the open pack sent.
func (k *packer) flush(ctx context.Context) {
	buffer, filled, parts := k.buffer, k.filled, k.parts
	k.buffer = nil
	if buffer == nil {
		return
	}
	k.group.Go(func() error {
		defer buffers.Put(buffer)
		if len(parts) == 0 {
			return nil
		}
		sum := sha256.Sum256((*buffer)[:filled])
		name := hex.EncodeToString(sum[:])
		if err := k.send(ctx, name, (*buffer)[:filled]); err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for hash, at := range parts {
			k.places[hash] = place{name, at}
		}
		return nil
	})
}

// readFull fills a buffer. It reports whether the file was long enough.
func readFull(file *os.File, part []byte) (whole bool, err error) {
	switch _, err := io.ReadFull(file, part); err {
	case nil:
		return true, nil
	case io.EOF, io.ErrUnexpectedEOF:
		return false, nil
	default:
		return false, fmt.Errorf("read %s: %w", file.Name(), err)
	}
}

// find returns the object that contains a chunk, and its position there.
func (m *Mirror) find(hash string) (at place, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.findLocked(hash)
}

func (m *Mirror) findLocked(hash string) (at place, ok bool) {
	if at, ok = m.places[hash]; !ok {
		at.pack = hash
		_, ok = m.stored[hash]
	}
	return at, ok
}

// fresh reports whether the store has a chunk outside packs that are to be replaced.
func (m *Mirror) fresh(hash string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freshLocked(hash)
}

func (m *Mirror) freshLocked(hash string) bool {
	at, ok := m.findLocked(hash)
	return ok && !m.stale[at.pack]
}

// replaces decides which packs of the newest generation to replace: those of which less than half is used, if that
// saves anything, and small ones once there are many.
func (m *Mirror) replaces() {
	latest := m.Latest()
	if latest == nil {
		return
	}
	used := make([]int64, len(latest.Packs))
	for _, e := range latest.Files {
		if e.Pack > 0 {
			used[e.Pack-1] += e.Size
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = map[string]bool{}
	var thin []string
	for i, pack := range latest.Packs {
		size := m.stored[pack]
		if size < chunkBytes/4 {
			thin = append(thin, pack)
		}
		m.stale[pack] = used[i] < size/2 && size-used[i] > small
	}
	if len(thin) > mostThin {
		for _, pack := range thin {
			m.stale[pack] = true
		}
	}
}
