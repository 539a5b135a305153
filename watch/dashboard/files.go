package dashboard

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/tierml/tierml/cost/page"
)

// runFile is a file of a run that people may request.
type runFile struct {
	name, what, kind string
	model            bool // only for clients with the token
}

var runFiles = []runFile{
	{"journal.jsonl", "everything that happened: the figures here are made of it", "text/plain; charset=utf-8", false},
	{"report.html", "the report, to be kept or sent", "text/html; charset=utf-8", false},
	{"report.json", "the report for programs", "application/json", false},
	{"job.yaml", "the job file", "text/plain; charset=utf-8", false},
	{"cloud.jsonl", "the fake cloud's own records of machines", "text/plain; charset=utf-8", false},
	{"logs/controller.log", "what the controller has logged", "text/plain; charset=utf-8", false},
	{"model.safetensors", "the trained model", "application/octet-stream", true},
}

// files lists those that exist.
func files(dir string, models bool) []page.File {
	var out []page.File
	for _, f := range runFiles {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.name)))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		shown := page.File{Name: f.name, What: f.what, Bytes: info.Size()}
		if models || !f.model {
			shown.Link = "/runs/" + url.PathEscape(filepath.Base(dir)) + "/files/" + url.PathEscape(filepath.Base(f.name))
		} else {
			shown.What += ", in " + dir
		}
		out = append(out, shown)
	}
	return out
}

// file serves one of runFiles by its last name.
func (b *Board) file(w http.ResponseWriter, request *http.Request, models bool) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	name := request.PathValue("file")
	i := slices.IndexFunc(runFiles, func(f runFile) bool { return filepath.Base(f.name) == name && (models || !f.model) })
	if i < 0 {
		trouble(w, http.StatusNotFound, "No such file", fmt.Sprintf("There is no file %q of a run to have here.", name))
		return
	}
	in, err := os.Open(filepath.Join(r.dir, filepath.FromSlash(runFiles[i].name)))
	if err != nil {
		trouble(w, http.StatusNotFound, "No such file", fmt.Sprintf("The run %s has no %s (yet).", r.name(), name))
		return
	}
	defer in.Close()
	w.Header().Set("Content-Type", runFiles[i].kind)
	out := io.Writer(w)
	if !runFiles[i].model && packs(w, request) {
		z := gzip.NewWriter(w)
		defer z.Close()
		out = z
	}
	if runFiles[i].model {
		_, _ = io.Copy(out, in) // the client may have disconnected
		return
	}
	_ = CopyLines(out, in, b.shown)
}

// CopyLines copies lines through shown. A disconnected client is no error.
func CopyLines(to io.Writer, from io.Reader, shown func(line string) string) error {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if _, gone := io.WriteString(to, shown(line)); gone != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a file of a run: %w", err)
		}
	}
}
