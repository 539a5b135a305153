package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
)

// The tables hold the model's change. The initial model is in the store, once for all machines: as the program wrote it, by its digest, and
// a description, which is written last and names the file.
const (
	helloFile = "hello.json"
	storeWait = 10 * time.Minute
)

// description is kept's form in the store.
type description struct {
	kept
	File string `json:"file"`
}

// known returns the first program's hello; nil = this is the first.
func (c *Child) known() (*kept, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	d, err := read(ctx, c.cfg.Store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &d.kept, nil
}

func read(ctx context.Context, store string) (d description, err error) {
	r, err := blob.Open(ctx, location.Join(store, helloFile))
	if err != nil {
		return d, fmt.Errorf("reading what the first machine's model is: %w", err)
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return d, fmt.Errorf("reading what the first machine's model is: %w", err)
	}
	return d, nil
}

// keep stores the initial model. Two machines may do so at once: the last description counts, and each compares itself with it.
func (c *Child) keep(m *message, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	digest, err := fileDigest(file)
	if err != nil {
		return fmt.Errorf("the program has not written the model as it begins: %w", err)
	}
	d := description{kept: kept{Version: version, Digest: m.Digest, Tensors: m.Tensors}, File: "initial-" + digest + ".safetensors"}
	put := func(name string, write func(io.Writer) error) error {
		if err := blob.Write(ctx, location.Join(c.cfg.Store, name), write); err != nil {
			return fmt.Errorf("keeping the model as it begins: %w", err)
		}
		return nil
	}
	if err := put(d.File, func(w io.Writer) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}); err != nil {
		return err
	}
	if k, err := c.known(); err != nil || k != nil { // another was faster
		if err == nil {
			err = k.differs(m)
		}
		return errors.Join(err, os.Remove(file))
	}
	if err := put(helloFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(d) }); err != nil {
		return err
	}
	k, err := c.known()
	if err == nil && k != nil {
		err = k.differs(m)
	}
	return errors.Join(err, os.Remove(file))
}

// Initial opens the initial model, and returns the names of the trained tensors, in order.
func Initial(ctx context.Context, store string) (names []string, file io.ReadCloser, err error) {
	d, err := read(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range d.Tensors {
		names = append(names, t.Name)
	}
	file, err = blob.Open(ctx, location.Join(store, d.File))
	return names, file, err
}
