package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// file is a file of an archive or a package.
type file struct {
	name    string // below the top folder
	mode    fs.FileMode
	content []byte
}

// collect reads the files of every archive and package: pages, examples, modules, monitoring, completions and man pages.
func (r *release) collect(work string) error {
	listed, err := r.command(r.root, "git", "ls-files", "LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs", "examples", "terraform", "deploy")
	if err != nil {
		return err
	}
	for _, name := range strings.Split(listed, "\n") {
		info, err := os.Stat(filepath.Join(r.root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, but not committed yet
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		r.extras = append(r.extras, file{name, mode, content})
	}
	program := filepath.Join(work, "native")
	if _, err := r.command(r.root, "go", "build", "-buildvcs=false", "-o", program, "./cmd/tierml"); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "tierml.bash", "zsh": "_tierml", "fish": "tierml.fish"} {
		text, err := r.command("", program, "completion", shell)
		if err != nil {
			return err
		}
		r.extras = append(r.extras, file{"completions/" + name, 0o644, []byte(text + "\n")})
	}
	for page, man := range map[string]string{"docs/cli.md": "tierml.1", "docs/job.md": "tierml-job.5"} {
		r.extras = append(r.extras, file{"man/" + man, 0o644, manual(man, r.extra(page))})
	}
	slices.SortFunc(r.extras, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return nil
}

func (r *release) extra(name string) []byte {
	for _, f := range r.extras {
		if f.name == name {
			return f.content
		}
	}
	return nil
}

// manual converts a page to a man page.
func manual(name string, page []byte) []byte {
	title, section, _ := strings.Cut(name, ".")
	head := "% " + strings.ToUpper(title) + "(" + section + ")\n\n# NAME\n\n" + title + " - run jobs on spot machines\n\n"
	return md2man.Render(append([]byte(head), page...))
}

// archive packs everything for one system.
func (r *release) archive(b build) error {
	top := "tierml_" + r.number() + "_" + b.system + "_" + b.arch
	program, err := os.ReadFile(b.program)
	if err != nil {
		return err
	}
	packed, err := r.pack(top, append([]file{{"tierml", 0o755, program}}, r.extras...))
	if err != nil {
		return err
	}
	return r.write(top+".tar.gz", packed)
}

// pack makes a .tar.gz with one folder at the top.
func (r *release) pack(top string, files []file) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: path.Join(top, f.name), Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: r.stamp, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}
