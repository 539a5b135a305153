package jobmanager

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/jobmanager/call"
)

// inputsDir holds uploaded files: inputs/CLIENT/SHA256/NAME, where CLIENT is the SHA-256 of the token that sent them.
//
// Invariant: a visible folder contains what its name says, and is never changed again. For one file the folder's name
// is the SHA-256 of its content. For several files, which a reader expects in one folder, it is the digest of their
// listing, which is stored with them. A folder is created under another name, and renamed once its content was hashed.
// It belongs to its client: no other client can name it, or see that it exists.
const inputsDir = "inputs"

// listingFile is in a folder with several files: a line "SHA256 NAME" for each. No upload can have its name.
const listingFile = ".listing"

var (
	sumText   = pattern.Of(`^[0-9a-f]{64}$`)
	sumInText = pattern.Of(`\b[0-9a-f]{64}\b`)
	nameText  = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)
)

// inputs are the files that clients have uploaded.
type inputs struct {
	cfg Config
	dir string // parent of a folder for each client

	reserved atomic.Int64 // bytes
}

// space is one client's uploads.
type space struct {
	*inputs
	dir string // parent of a folder for each upload
}

func (in *inputs) spaceOf(r *http.Request) space {
	return space{in, filepath.Join(in.dir, access.ClientOf(r.Context()).ID())}
}

// path returns where an uploaded file is. A client's input cannot leave the directory.
func (s space) path(sum, name string) (string, error) {
	if !sumText().MatchString(sum) || !nameText().MatchString(name) {
		return "", refuse(http.StatusBadRequest, "an input is named by its SHA-256 in hexadecimal digits and a plain file name")
	}
	return filepath.Join(s.dir, sum, name), nil
}

// find is path for a file that must exist, and is now kept at least as long as any.
func (s space) find(sum, name string) (string, error) {
	path, err := s.path(sum, name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", refuse(http.StatusNotFound, "%s was not uploaded with this token", name)
	}
	return path, use(path, s.cfg.Now())
}

func (in *inputs) serveHas(w http.ResponseWriter, r *http.Request) error {
	if _, err := in.spaceOf(r).find(r.PathValue("sum"), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// serveUpload stores a file whose content has the SHA-256 of its folder.
func (in *inputs) serveUpload(w http.ResponseWriter, r *http.Request) error {
	sum, name := r.PathValue("sum"), r.PathValue("name")
	if r.URL.RawQuery != "" {
		return refuse(http.StatusBadRequest, "an upload has no parameters: send each file to inputs/SHA256/NAME, and for several in one folder their listing to "+
			"inputs/SHA256; an older tierml does otherwise: update it")
	}
	body := http.MaxBytesReader(w, &incomingBody{incoming{from: r.Body, w: w, room: in.room}, r.Body}, in.cfg.MaxUpload)
	if err := in.spaceOf(r).take(sum, name, body); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(http.StatusRequestEntityTooLarge, "%s is larger than the %d MiB that this job server takes (max-upload); put it into a "+
				"store and name it in the job file, such as train.data: s3://BUCKET/%[1]s", name, in.cfg.MaxUpload>>20)
		}
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// serveListing combines earlier uploads in a folder, which has the SHA-256 of the listing that is sent.
func (in *inputs) serveListing(w http.ResponseWriter, r *http.Request) error {
	listing, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return refuse(http.StatusBadRequest, "reading the listing: %w", err)
	}
	access.AllRead(w)
	if err := in.spaceOf(r).gather(r.PathValue("sum"), listing); err != nil {
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// prepare creates a folder with fill, and publishes it under its sum unless fill fails.
func (s space) prepare(sum string, fill func(folder string) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	folder, err := os.MkdirTemp(s.dir, coming)
	if err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	defer func() {
		_ = os.RemoveAll(folder) // renamed, or useless
		_ = os.Remove(s.dir)     // if it is empty
	}()
	if err := fill(folder); err != nil {
		if refused, ok := errors.AsType[refusal](err); ok {
			return refused
		}
		return fmt.Errorf("taking a file in: %w", err)
	}
	err = os.Rename(folder, filepath.Join(s.dir, sum))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) { // the same content exists: files with other names are added
		err = s.add(folder, filepath.Join(s.dir, sum))
	}
	if err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	return nil
}

// add links the files of a folder into another, except existing names.
func (s space) add(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Link(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (s space) take(want, name string, from io.Reader) error {
	if _, err := s.path(want, name); err != nil {
		return err
	}
	return s.prepare(want, func(folder string) error {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(file, sum), from)
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			return refuse(http.StatusUnprocessableEntity, "the upload has the SHA-256 %s, not %s; send it again", got, want)
		}
		return nil
	})
}

// gather creates the folder of a listing.
func (s space) gather(want string, listing []byte) error {
	if got := sha256.Sum256(listing); hex.EncodeToString(got[:]) != want {
		return refuse(http.StatusUnprocessableEntity, "the listing has the SHA-256 %x, not %s", got, want)
	}
	files, err := parseListing(listing)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "%w", err)
	}
	return s.prepare(want, func(folder string) error {
		for name, sum := range files { // any order
			path, err := s.find(sum, name)
			if err != nil {
				return err
			}
			if err := os.Link(path, filepath.Join(folder, name)); err != nil {
				return err
			}
		}
		return replaceFile(filepath.Join(folder, listingFile), listing)
	})
}

// parseListing parses the sums of a listing, by name.
func parseListing(listing []byte) (map[string]string, error) {
	files := map[string]string{}
	for line := range strings.Lines(string(listing)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, twice := files[name]; twice || !sumText().MatchString(sum) || !nameText().MatchString(name) {
			return nil, fmt.Errorf("a listing has a line \"SHA256 NAME\" for each file, each name once; this is none: %q", line)
		}
		files[name] = sum
	}
	if len(files) == 0 {
		return nil, errors.New("the listing is empty")
	}
	return files, nil
}

// inPlace replaces "uploaded:SHA256/NAME" by the path of the client's file, and returns the folders of the replaced ones.
func (s space) inPlace(text []byte) (_ []byte, folders []string, err error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "the job file is not valid YAML: %w", err)
	}
	var visit func(n *yaml.Node) error
	visit = func(n *yaml.Node) error {
		if name, ok := strings.CutPrefix(n.Value, call.Uploaded); ok && n.Kind == yaml.ScalarNode {
			sum, name, _ := strings.Cut(name, "/")
			path, err := s.find(sum, name)
			if refused, ok := errors.AsType[refusal](err); ok {
				return refusal{http.StatusUnprocessableEntity, refused.error}
			}
			if err != nil {
				return err
			}
			n.Value, folders = path, append(folders, filepath.Dir(path))
		}
		for _, below := range n.Content {
			if err := visit(below); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(&root); err != nil || folders == nil {
		return text, nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return nil, nil, fmt.Errorf("writing the job file: %w", err)
	}
	return out.Bytes(), folders, nil
}

// outOfPlace reverts inPlace in a text for clients, which must not see this host's paths.
func (in *inputs) outOfPlace(text string) string {
	if !strings.Contains(text, in.dir) {
		return text
	}
	placed := regexp.MustCompile(regexp.QuoteMeta(in.dir) + `/(?:[0-9a-f]{64}/)?([0-9a-f]{64}/)`)
	return placed.ReplaceAllString(text, call.Uploaded+"$1")
}

// InputsVariable passes the directory of inputs to the process of a submitted job.
const InputsVariable = "TIERML_INPUTS"

// VerifyInputs checks the hashes of a job's uploaded files, below the directory root: what is read when a job starts is what was submitted,
// regardless of writers to the directory meanwhile. A missing file is left to its reader.
func VerifyInputs(root string, paths []string) error {
	for _, path := range paths {
		below, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(below) {
			continue
		}
		folder := filepath.Dir(path)
		listing, err := os.ReadFile(filepath.Join(folder, listingFile))
		if errors.Is(err, fs.ErrNotExist) {
			if err := hasSum(path, filepath.Base(folder)); err != nil {
				return err
			}
			continue
		}
		if got := sha256.Sum256(listing); err != nil || hex.EncodeToString(got[:]) != filepath.Base(folder) {
			return changedInput(path)
		}
		files, err := parseListing(listing)
		if _, listed := files[filepath.Base(path)]; err != nil || !listed {
			return changedInput(path)
		}
		for name, sum := range files { // any order
			if err := hasSum(filepath.Join(folder, name), sum); err != nil {
				return err
			}
		}
	}
	return nil
}

func changedInput(path string) error {
	return fmt.Errorf("%s is not what was uploaded: its content has changed since; submit the job again", filepath.Base(path))
}

func hasSum(path, want string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checking an input: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("checking an input: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return changedInput(path)
	}
	return nil
}

// load reads a client's job file, which may name what is in these folders.
func (in *inputs) load(path string, folders []string) (*config.Job, error) {
	return config.LoadForeign(path, config.Foreign{Allow: append(folders, in.cfg.Allow...)})
}

// coming is the prefix of folders that are incomplete, or being removed.
const coming = ".coming-"

// scratchDir holds temporary files of requests. A job server starts with an empty one.
const scratchDir = "scratch"

// scratch creates a folder in it, mode 0700; the caller removes it.
func (in *inputs) scratch() (string, error) {
	all := filepath.Join(in.cfg.Home, scratchDir)
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(all, "")
}

// removeHalves removes remains of uploads and other requests that were interrupted by a job server's end.
func (in *inputs) removeHalves() {
	_ = os.RemoveAll(filepath.Join(in.cfg.Home, scratchDir))
	halves, _ := filepath.Glob(filepath.Join(in.dir, "*", coming+"*")) // the pattern is valid
	older, _ := filepath.Glob(filepath.Join(in.dir, coming+"*"))
	for _, path := range append(halves, older...) {
		_ = os.RemoveAll(path)
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
}

// lookAtRoom is the number of received bytes after which the free space is checked again.
const lookAtRoom = 16 << 20

// incoming is the body of an upload: it may arrive slowly, but not stall, and ends before the disk is full. Journals and checkpoints of
// active runs need the remaining space.
type incoming struct {
	from    io.Reader
	w       http.ResponseWriter
	room    func(bytes int64) error
	unknown int // bytes since the space was checked
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

// incomingBody is a closable one.
type incomingBody struct {
	incoming
	io.Closer
}

// reserve is space for bytes that arrive gradually, until it is released: received bytes count twice meanwhile.
func (in *inputs) reserve(bytes int64) (giveBack func(), err error) {
	in.reserved.Add(bytes)
	giveBack = func() { in.reserved.Add(-bytes) }
	if err := in.room(0); err != nil {
		giveBack()
		return func() {}, err
	}
	return giveBack, nil
}

// room reports whether this many bytes can be received.
func (in *inputs) room(bytes int64) error {
	free, err := in.free()
	if err == nil && free-in.reserved.Load() < in.cfg.KeepFree+bytes {
		return refuse(http.StatusInsufficientStorage, "the job server's disk has %d MiB left, of which %d MiB stay free for the runs there: remove inputs that "+
			"no job needs, or put the file into a store", free>>20, in.cfg.KeepFree>>20)
	}
	return nil
}

// free returns how many bytes of the disk may be used.
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
