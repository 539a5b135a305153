package jobmanager

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/jobmanager/call"
)

// inputsDir holds uploaded files, each in a folder with the name of its SHA-256. Files of which a reader looks for one beside
// the other are in one folder, whose name is that of all their sums together (by the client): so what is there never changes.
const inputsDir = "inputs"

var (
	sumText   = pattern.Of(`^[0-9a-f]{64}$`)
	sumInText = pattern.Of(`\b[0-9a-f]{64}\b`)
	nameText  = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)
)

// inputs are the files that clients have uploaded.
type inputs struct {
	cfg Config
	dir string // below it a folder for each
}

// path is where an uploaded file is. Nothing that a client says leaves the directory.
func (in *inputs) path(sum, name string) (string, error) {
	if !sumText().MatchString(sum) || !nameText().MatchString(name) {
		return "", refuse(http.StatusBadRequest, "an input is named by its SHA-256 in hexadecimal digits and a plain file name")
	}
	return filepath.Join(in.dir, sum, name), nil
}

func (in *inputs) serveHas(w http.ResponseWriter, r *http.Request) error {
	path, err := in.path(r.PathValue("sum"), r.PathValue("name"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return refuse(http.StatusNotFound, "%s was not uploaded", r.PathValue("name"))
	}
	if err := use(path, in.cfg.Now()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// serveUpload takes a file in, of the SHA-256 of its folder or, where there are several, of its own (?own=SHA256). It has its
// name once all of it is there and is what it is said to be.
func (in *inputs) serveUpload(w http.ResponseWriter, r *http.Request) error {
	path, err := in.path(r.PathValue("sum"), r.PathValue("name"))
	if err != nil {
		return err
	}
	want := r.PathValue("sum")
	if own := r.FormValue("own"); own != "" {
		want = own
	}
	if err := in.take(path, want, http.MaxBytesReader(w, &incomingBody{incoming{from: r.Body, w: w, room: in.room}, r.Body}, in.cfg.MaxUpload)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(http.StatusRequestEntityTooLarge, "%s is larger than the %d MiB that this job server takes (--max-upload); put it into a "+
				"store and name it in the job file, such as train.data: s3://BUCKET/%[1]s", filepath.Base(path), in.cfg.MaxUpload>>20)
		}
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (in *inputs) take(path, want string, from io.Reader) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), coming)
	if err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			_ = os.Remove(filepath.Dir(path)) // if it is empty
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), from)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		if refused, ok := errors.AsType[refusal](err); ok {
			return refused
		}
		return fmt.Errorf("taking a file in: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return refuse(http.StatusUnprocessableEntity, "the upload has the SHA-256 %s, not %s; send it again", got, want)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	return nil
}

// inPlace replaces "uploaded:SHA256/NAME" by the path of the file.
func (in *inputs) inPlace(text []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "the job file is not valid YAML: %w", err)
	}
	changed := false
	var visit func(n *yaml.Node) error
	visit = func(n *yaml.Node) error {
		if name, ok := strings.CutPrefix(n.Value, call.Uploaded); ok && n.Kind == yaml.ScalarNode {
			sum, name, _ := strings.Cut(name, "/")
			path, err := in.path(sum, name)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); err != nil {
				return refuse(http.StatusUnprocessableEntity, "%s was not uploaded", name)
			}
			if err := use(path, in.cfg.Now()); err != nil {
				return err
			}
			n.Value, changed = path, true
		}
		for _, below := range n.Content {
			if err := visit(below); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(&root); err != nil || !changed {
		return text, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return nil, fmt.Errorf("writing the job file: %w", err)
	}
	return out.Bytes(), nil
}

// load reads a job file that a client has sent.
func (in *inputs) load(path string) (*config.Job, error) {
	return config.LoadForeign(path, config.Foreign{Allow: append([]string{in.dir}, in.cfg.Allow...)})
}

// coming is how files are called that are not there in full.
const coming = ".coming-"

// removeHalves removes what uploads left that a job server's end broke off.
func (in *inputs) removeHalves() {
	halves, _ := filepath.Glob(filepath.Join(in.dir, "*", coming+"*")) // the pattern is right
	for _, path := range halves {
		_ = os.Remove(path)
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
}

// lookAtRoom is how many bytes are taken in before the room on the disk is looked at again.
const lookAtRoom = 16 << 20

// incoming is the body of an upload: it may come slowly, but not stall, and ends before the disk is full. Journals and
// checkpoints of active runs need the room that is left.
type incoming struct {
	from    io.Reader
	w       http.ResponseWriter
	room    func(bytes int64) error
	unknown int // bytes since the room was looked at
}

func (i *incoming) Read(p []byte) (int, error) {
	if i.unknown <= 0 {
		if err := i.room(lookAtRoom); err != nil {
			return 0, err
		}
		i.unknown = lookAtRoom
	}
	access.Slowly(i.w)
	n, err := i.from.Read(p[:min(len(p), i.unknown)])
	i.unknown -= n
	return n, err
}

// incomingBody is one that can be closed.
type incomingBody struct {
	incoming
	io.Closer
}

// room reports whether so many bytes can be taken in.
func (in *inputs) room(bytes int64) error {
	free, err := in.free()
	if err == nil && free < in.cfg.KeepFree+bytes {
		return refuse(http.StatusInsufficientStorage, "the job server's disk has %d MiB left, of which %d MiB stay free for the runs there: remove inputs that "+
			"no job needs, or put the file into a store", free>>20, in.cfg.KeepFree>>20)
	}
	return nil
}

// free is how many bytes of the disk may be used.
func (in *inputs) free() (int64, error) {
	if in.cfg.Free != nil {
		return in.cfg.Free(in.cfg.Home)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(in.cfg.Home, &s); err != nil {
		return 0, fmt.Errorf("reading the free disk space: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
