package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

const (
	// shipEvery is how long output is collected before it is sent: followers of a log see it this late.
	shipEvery = 2 * time.Second
	// mostPiece bounds the size of a piece.
	mostPiece = 1 << 20
)

// shipper sends an attempt's log to the store in pieces, named by offset: objects cannot be appended to.
type shipper struct {
	file   string
	folder string
	sent   int64
}

func newShipper(file, store, key string, attempt uint64) *shipper {
	return &shipper{file: file, folder: logFolder(store, LogName{key, attempt})}
}

// ship sends the unsent part.
func (s *shipper) ship(ctx context.Context) error {
	file, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer file.Close()
	piece := make([]byte, mostPiece)
	for {
		n, err := file.ReadAt(piece, s.sent)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		name := location.Join(s.folder, fmt.Sprintf("%015d.log", s.sent))
		if err := blob.Write(ctx, name, func(w io.Writer) error {
			_, err := w.Write(piece[:n])
			return err
		}); err != nil {
			return err
		}
		s.sent += int64(n)
	}
}

// LogName is one attempt's log in a store.
type LogName struct {
	Key     string
	Attempt uint64
}

func logFolder(store string, l LogName) string {
	return location.Join(store, "logs", fmt.Sprintf("%s.%d", l.Key, l.Attempt))
}

// Logs lists the logs in a store by key and attempt.
func Logs(ctx context.Context, store string) ([]LogName, error) {
	objects, err := blob.List(ctx, location.Join(store, "logs"))
	if err != nil {
		return nil, err
	}
	var names []LogName
	for _, o := range objects {
		folder, _, _ := strings.Cut(o.Path, "/")
		i := strings.LastIndexByte(folder, '.')
		if i < 0 {
			continue
		}
		attempt, err := strconv.ParseUint(folder[i+1:], 10, 64)
		if name := (LogName{folder[:i], attempt}); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b LogName) int {
		return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Attempt, b.Attempt))
	})
	return names, nil
}

// compareKeys orders task-2 before task-10.
func compareKeys(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// CopyLog writes an attempt's log from an offset on, as far as it is in the store, and returns the new offset.
func CopyLog(ctx context.Context, to io.Writer, store string, l LogName, from int64) (next int64, err error) {
	folder := logFolder(store, l)
	pieces, err := blob.List(ctx, folder)
	if err != nil {
		return from, err
	}
	for _, p := range pieces {
		begins, err := strconv.ParseInt(strings.TrimSuffix(p.Path, ".log"), 10, 64)
		if err != nil || begins+p.Bytes <= from {
			continue
		}
		if begins > from {
			return from, nil // the previous piece has not arrived
		}
		r, err := blob.OpenRange(ctx, location.Join(folder, p.Path), from-begins, begins+p.Bytes-from)
		if err != nil {
			return from, err
		}
		n, err := io.Copy(to, r)
		from += n
		if err := errors.Join(err, r.Close()); err != nil {
			return from, err
		}
	}
	return from, nil
}
