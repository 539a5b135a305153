package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/access"

	"github.com/tierml/tierml/internal/atomicfile"
)

// Registry is the folder in which a user keeps what is known about job servers: for each a folder with its place, its token (mode 0600),
// and the names of the jobs submitted to it.
type Registry struct{ dir string }

// Files of a job server's folder.
const (
	settingsFile = "installation.yaml"
	placeFile    = "place.json"
	tokenFile    = "token"
	jobsFile     = "jobs" // a name in each line, the newest last
)

// NewRegistry returns the registry in a directory, which need not exist.
func NewRegistry(dir string) Registry { return Registry{dir} }

// UserRegistry returns the user's own.
func UserRegistry() (Registry, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Registry{}, fmt.Errorf("finding the directory of configurations, where tokens of job servers are kept: %w", err)
	}
	return NewRegistry(filepath.Join(dir, "tierml", "controllers")), nil
}

// TokenFile returns where a job server's token is, once it is known.
func (s Registry) TokenFile(p Place) string { return filepath.Join(s.dir, p.Name(), tokenFile) }

// Keep remembers a place, and a run submitted there; empty: none.
func (s Registry) Keep(p Place, run string) error {
	folder := filepath.Join(s.dir, p.Name())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("remembering %s: %w", p, err)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("remembering %s: %w", p, err)
	}
	if err := atomicfile.Write(filepath.Join(folder, placeFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("remembering %s: %w", p, err)
	}
	if run == "" {
		return nil
	}
	jobs, err := os.OpenFile(filepath.Join(folder, jobsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("remembering where %s is: %w", run, err)
	}
	_, err = fmt.Fprintln(jobs, run)
	if err := errors.Join(err, jobs.Close()); err != nil {
		return fmt.Errorf("remembering where %s is: %w", run, err)
	}
	return nil
}

// KeepSettings remembers the settings of a place's installation.
func (s Registry) KeepSettings(p Place, settings []byte) error {
	if err := atomicfile.Write(filepath.Join(s.dir, p.Name(), settingsFile), settings, 0o600); err != nil {
		return fmt.Errorf("remembering the settings of %s: %w", p, err)
	}
	return nil
}

// Settings returns those of the cloud's last used place; where is empty without one.
func (s Registry) Settings(cloud string) (text []byte, where string, err error) {
	all, err := s.Known()
	for _, k := range all {
		if k.Place.Cloud == cloud {
			where = filepath.Join(s.dir, k.Place.Name(), settingsFile)
			if text, err = os.ReadFile(where); !errors.Is(err, fs.ErrNotExist) {
				return text, where, err
			}
		}
	}
	return nil, "", err
}

// Forget removes everything known about a place, including its token.
func (s Registry) Forget(p Place) error { return os.RemoveAll(filepath.Join(s.dir, p.Name())) }

// Known is a remembered place, with the runs submitted there, the oldest first.
type Known struct {
	Place Place
	Runs  []string
	used  time.Time
}

// Known returns all remembered places, the last used first. A folder that cannot be read is none.
func (s Registry) Known() ([]Known, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the known job servers: %w", err)
	}
	var all []Known
	for _, e := range entries {
		folder := filepath.Join(s.dir, e.Name())
		text, err := os.ReadFile(filepath.Join(folder, placeFile))
		var k Known
		if err != nil || json.Unmarshal(text, &k.Place) != nil || k.Place.Name() != e.Name() {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, placeFile)); err == nil {
			k.used = info.ModTime()
		}
		runs, _ := os.ReadFile(filepath.Join(folder, jobsFile)) // none were submitted there
		k.Runs = strings.Fields(string(runs))
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(a, b Known) int { return b.used.Compare(a.used) })
	return all, nil
}

// FindRun returns the place to which a run was submitted, by its name or its job's, of which the newest counts; false: none.
func (s Registry) FindRun(meant string) (Place, bool, error) {
	all, err := s.Known()
	for _, k := range all {
		for _, run := range slices.Backward(k.Runs) {
			if name := run[:max(0, strings.LastIndexByte(run, '-'))]; run == meant || name == meant {
				return k.Place, true, nil
			}
		}
	}
	return Place{}, false, err
}

// FindPlace returns the place with a name: its cluster's, or Name.
func (s Registry) FindPlace(name string) (Place, error) {
	all, err := s.Known()
	if err != nil {
		return Place{}, err
	}
	var names []string
	for _, k := range all {
		if k.Place.Cluster == name || k.Place.Name() == name {
			return k.Place, nil
		}
		names = append(names, k.Place.Name())
	}
	known := "none is known yet; `tierml run JOB.yaml` finds and remembers one"
	if len(names) > 0 {
		known = "known are " + strings.Join(names, ", ")
	}
	return Place{}, fmt.Errorf("%s is not a job server URL, a job file or a known cluster; %s", name, known)
}

// Way is an open connection to a job server.
type Way struct {
	Address string
	Token   access.Token
	Close   func()
	// Dial connects to Address; through a tunnel only to this user's own end of it. Nil: as usual.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Connect connects to a job server, and gets its token once: from then on it is in TokenFile. Own is a token that the user has named; zero:
// none. Note gets messages about what happens meanwhile.
func (s Registry) Connect(ctx context.Context, p Place, own access.Token, note func(string)) (w *Way, err error) {
	w = &Way{Address: p.URL, Close: func() {}}
	if p.URL == "" {
		t, err := OpenTunnel(ctx, p, note)
		if err != nil {
			return nil, err
		}
		w = t.way()
	}
	w.Token = own
	end := w.Close
	defer func() {
		if err != nil {
			end()
		}
	}()
	if !own.Zero() {
		return w, nil
	}
	w.Token, err = access.Read(s.TokenFile(p))
	if err == nil && !refused(ctx, w) {
		return w, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	note("Getting the token of " + p.String() + ", once ...") // or it is another one by now
	if w.Token, err = ReadToken(ctx, p); err != nil {
		return nil, err
	}
	return w, s.KeepToken(p, w.Token)
}

// KeepToken keeps a job server's token, which only its owner can read.
func (s Registry) KeepToken(p Place, token access.Token) error {
	if err := os.MkdirAll(filepath.Dir(s.TokenFile(p)), 0o700); err != nil {
		return fmt.Errorf("keeping the token: %w", err)
	}
	if err := atomicfile.Write(s.TokenFile(p), []byte(strings.TrimPrefix(token.Bearer(), "Bearer ")+"\n"), 0o600); err != nil {
		return fmt.Errorf("keeping the token: %w", err)
	}
	return nil
}

// refused reports whether the job server rejects the token. Other problems show later.
func refused(ctx context.Context, w *Way) bool {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	if _, err := access.CheckURL(w.Address); err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(w.Address, "/")+"/api/v1/", nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", w.Token.Bearer())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	if w.Dial != nil {
		transport.DialContext = w.Dial
	}
	response, err := transport.RoundTrip(request) // it follows no redirection
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10)) // the content does not matter
	_ = response.Body.Close()
	return response.StatusCode == http.StatusUnauthorized
}
