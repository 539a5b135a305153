package jobmanager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager/call"
)

// inputsDir holds uploaded files, each in a folder with the name of its SHA-256. Files of which a reader looks for one beside
// the other are in one folder, whose name is that of all their sums together (by the client): so what is there never changes.
const inputsDir = "inputs"

var (
	sumText   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sumInText = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	nameText  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)
)

// inputPath is where an uploaded file is. Nothing that a client says leaves the directory.
func (m *Manager) inputPath(sum, name string) (string, error) {
	if !sumText.MatchString(sum) || !nameText.MatchString(name) {
		return "", refuse(http.StatusBadRequest, "an input is named by its SHA-256 in hexadecimal digits and a plain file name")
	}
	return filepath.Join(m.cfg.Home, inputsDir, sum, name), nil
}

func (m *Manager) serveHas(w http.ResponseWriter, r *http.Request) error {
	path, err := m.inputPath(r.PathValue("sum"), r.PathValue("name"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return refuse(http.StatusNotFound, "%s was not uploaded", r.PathValue("name"))
	}
	if err := use(path, m.cfg.Now()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// serveUpload takes a file in, of the SHA-256 of its folder or, where there are several, of its own (?own=SHA256). It has its
// name once all of it is there and is what it is said to be.
func (m *Manager) serveUpload(w http.ResponseWriter, r *http.Request) error {
	path, err := m.inputPath(r.PathValue("sum"), r.PathValue("name"))
	if err != nil {
		return err
	}
	want := r.PathValue("sum")
	if own := r.FormValue("own"); own != "" {
		want = own
	}
	if err := m.takeFile(path, want, http.MaxBytesReader(w, &incomingBody{incoming{from: r.Body, w: w, m: m}, r.Body}, m.cfg.MaxUpload)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(http.StatusRequestEntityTooLarge, "%s is larger than the %d MiB that this controller takes (--max-upload); put it into a "+
				"store and name it in the job file, such as train.data: s3://BUCKET/%[1]s", filepath.Base(path), m.cfg.MaxUpload>>20)
		}
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (m *Manager) takeFile(path, want string, from io.Reader) (err error) {
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
		return refuse(http.StatusUnprocessableEntity, "what arrived has the SHA-256 %s, not %s: send it again", got, want)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("taking a file in: %w", err)
	}
	return nil
}

// accept reads a submission and gives the job and the file to run it by, with uploaded files in place.
func (m *Manager) accept(w http.ResponseWriter, r *http.Request) (*config.Job, []byte, error) {
	var s call.Submission
	if err := read(w, r, &s); err != nil {
		return nil, nil, err
	}
	text, err := m.inPlace([]byte(s.Job))
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "tierml-")
	if err != nil {
		return nil, nil, fmt.Errorf("checking a job: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, submittedFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, nil, fmt.Errorf("checking a job: %w", err)
	}
	job, err := m.load(path)
	if err != nil {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "%s", strings.ReplaceAll(err.Error(), path+":", ""))
	}
	if job.Cloud == config.CloudNone {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "cloud: none buys no machines: train it in your own process with `tierml train`")
	}
	// What runs is what was judged, and nothing of the text: no reference to an environment, each place in its one form.
	return job, job.Resolved(), nil
}

// inPlace replaces "uploaded:SHA256/NAME" by the path of the file.
func (m *Manager) inPlace(text []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "the job file is not valid YAML: %w", err)
	}
	changed := false
	var visit func(n *yaml.Node) error
	visit = func(n *yaml.Node) error {
		if name, ok := strings.CutPrefix(n.Value, call.Uploaded); ok && n.Kind == yaml.ScalarNode {
			sum, name, _ := strings.Cut(name, "/")
			path, err := m.inputPath(sum, name)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); err != nil {
				return refuse(http.StatusUnprocessableEntity, "%s was not uploaded", name)
			}
			if err := use(path, m.cfg.Now()); err != nil {
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

// planWithin is how long a plan may take: it reads all data once.
const planWithin = 10 * time.Minute

// servePlan has a process of its own make the plan, with this host's files, credentials and prices.
func (m *Manager) servePlan(w http.ResponseWriter, r *http.Request) error {
	_, text, err := m.accept(w, r)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tierml-")
	if err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, submittedFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	done, err := m.planning(r)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), planWithin)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, m.cfg.Command[0], append(m.cfg.Command[1:len(m.cfg.Command):len(m.cfg.Command)], "plan", path)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := m.spawn(cmd); err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		if coded, ok := errors.AsType[*exec.ExitError](err); ok && coded.ExitCode() > 0 {
			if why := crash(problems.String(), m.cfg.JobMemory); why != "" {
				return refuse(http.StatusUnprocessableEntity, "planning failed: %s", why)
			}
			return refuse(http.StatusUnprocessableEntity, "%s", strings.TrimSpace(strings.ReplaceAll(problems.String(), path+":", "")))
		}
		return fmt.Errorf("planning: %w", err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.Copy(w, io.MultiReader(&out, &problems)) // whoever asked may be gone
	return nil
}
