package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tierml/tierml/program/filenames"
)

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if below, _ := filepath.Rel(dir, full); err == nil && !d.IsDir() {
			all = append(all, filepath.ToSlash(below))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPackAndUnpack(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"train.py": "print(1)", "pkg/a.py": "a", "pkg/__pycache__/a.pyc": "x", ".git/HEAD": "x", "data/big.bin": "x", "data/small.csv": "1,2",
		"notes/todo.txt": "x", "deep/notes/todo.txt": "x", "runs/r1/journal": "x", "ckpt/model": "weights", "a.log": "x", "keep.log": "x",
		IgnoreFile: "# comments\n\n/notes\n*.log\n!keep.log\ndata/*.bin\n",
	})
	if err := errors.Join(os.Chmod(filepath.Join(dir, "train.py"), 0o755), os.Symlink("train.py", filepath.Join(dir, "main.py")), os.Mkdir(filepath.Join(dir, "empty"), 0o755)); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	p, err := Pack(t.Context(), dir, &packed, Options{Skip: []string{"runs"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Files != 8 {
		t.Errorf("%d files, want 8, without folders", p.Files)
	}
	var again bytes.Buffer
	if same, err := Pack(t.Context(), dir, &again, Options{Skip: []string{"runs"}}); err != nil || same != p || !bytes.Equal(packed.Bytes(), again.Bytes()) {
		t.Errorf("packed twice: %+v and %+v, %v", p, same, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if same, err := Pack(t.Context(), link, &bytes.Buffer{}, Options{Skip: []string{"runs"}}); err != nil || same != p {
		t.Errorf("through a link: %+v and %+v, %v", p, same, err)
	}
	to := t.TempDir()
	if err := Unpack(t.Context(), bytes.NewReader(packed.Bytes()), to, "", 0); err != nil {
		t.Fatal(err)
	}
	want := []string{IgnoreFile, "ckpt/model", "data/small.csv", "deep/notes/todo.txt", "keep.log", "main.py", "pkg/a.py", "train.py"}
	if got := names(t, to); !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if info, err := os.Stat(filepath.Join(to, "train.py")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	if to, err := os.Readlink(filepath.Join(to, "main.py")); to != "train.py" {
		t.Errorf("%q %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(to, "empty")); err != nil {
		t.Error(err)
	}
	// A part, over the existing files.
	put(t, to, map[string]string{"ckpt/model": "newer", "train.py": "changed"})
	if err := Unpack(t.Context(), bytes.NewReader(packed.Bytes()), to, "ckpt/", 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ckpt/model": "weights", "train.py": "changed"} {
		if got, _ := os.ReadFile(filepath.Join(to, name)); string(got) != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"model.bin": strings.Repeat("x", 5000), "data/a": strings.Repeat("x", 3000), "data/b": strings.Repeat("x", 3000), "train.py": "x"})
	_, err := Pack(t.Context(), dir, &bytes.Buffer{}, Options{Most: 10_000})
	want := "has 11.0 kB, more than the 10.0 kB that are sent to each machine; the largest: data/ (6.0 kB), model.bin (5.0 kB), data/a (3.0 kB). List in "
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	put(t, dir, map[string]string{IgnoreFile: "data/\n"})
	if _, err := Pack(t.Context(), dir, &bytes.Buffer{}, Options{Most: 10_000}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{filepath.Join(dir, "nowhere"), filepath.Join(dir, "train.py")} {
		if _, err := Pack(t.Context(), bad, &bytes.Buffer{}, Options{}); err == nil {
			t.Errorf("%s was packed", bad)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), dir, &bytes.Buffer{}, Options{}); err == nil || !strings.Contains(err.Error(), "outside of the folder") {
		t.Errorf("%v", err)
	}
}

func TestIgnore(t *testing.T) {
	for pattern, c := range map[string]struct{ yes, no string }{
		"*.bin":        {"a.bin deep/b.bin", "a.bin.txt"},
		"/a":           {"a", "b/a"},
		"a/b":          {"a/b", "x/a/b"},
		"**/b":         {"b x/b x/y/b", "xb"},
		"a/**":         {"a/b a/b/c", "a b/a"},
		"a/**/c":       {"a/c a/b/c a/b/b/c", "ac"},
		"x?":           {"xy", "x x/y"},
		"[ab].txt":     {"a.txt b.txt", "c.txt"},
		"[!ab].txt":    {"c.txt", "a.txt"},
		"a.b":          {"a.b", "axb"},
		`\#x`:          {"#x", "x"},
		"x/":           {"", "x"},
		"*.l\n!keep.l": {"a.l", "keep.l"},
	} {
		r, err := parse(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(c.yes) {
			if behind, _ := r.match(name, false); !behind {
				t.Errorf("%q does not match %s", pattern, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if behind, _ := r.match(name, false); behind {
				t.Errorf("%q matches %s", pattern, name)
			}
		}
	}
	folders, err := parse("x/")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y/x"} {
		if behind, _ := folders.match(name, true); !behind {
			t.Error("x/ does not match folders")
		}
	}
	if _, err := parse("[z-a]"); err == nil {
		t.Error("[z-a] was read")
	}
}

func TestStrangeArchives(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg}, {Name: "/x", Typeflag: tar.TypeReg}, {Name: "x", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		{Name: "x", Linkname: "../../etc", Typeflag: tar.TypeSymlink}, {Name: "x", Typeflag: tar.TypeFifo}, {Name: "x", Size: 101, Typeflag: tar.TypeReg},
	} {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(z)
		_, err2 := w.Write(nil)
		if err := errors.Join(w.WriteHeader(&h), err2); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "in")
		if err := Unpack(t.Context(), &b, dir, "", 100); err == nil {
			t.Errorf("%+v was unpacked", h)
		}
	}
	if err := Unpack(t.Context(), strings.NewReader("no archive"), t.TempDir(), "", 0); err == nil {
		t.Error("something else was unpacked")
	}
}

// A packed folder is forwarded unchanged, and its contents are counted; anything else is refused.
func TestCopyOfAPackedFolder(t *testing.T) {
	dir, name := t.TempDir(), filepath.Join(t.TempDir(), "folder"+filenames.PackedEnding)
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	var packed, copied bytes.Buffer
	want, err := Pack(t.Context(), dir, &packed, Options{})
	if err == nil {
		err = os.WriteFile(name, packed.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	want.Largest = "" // for plans, which are made from the folder itself
	if got, err := Copy(t.Context(), name, &copied); err != nil || got != want || !bytes.Equal(copied.Bytes(), packed.Bytes()) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if err := os.WriteFile(name, packed.Bytes()[:packed.Len()-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(t.Context(), name, io.Discard); err == nil {
		t.Error("half a packed folder was taken")
	}
}

// Without a .tierignore, .gitignore counts, with git's rules: in subfolders, too, a later rule overriding an earlier one. What it excludes
// is reported.
func TestGitIgnore(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{
		".gitignore": ".env\n*.bin\n/out/\n", ".env": "SECRET=1", "a.bin": "x", "train.py": "x", "out/log": "x", "pkg/out/log": "x",
		"pkg/.gitignore": "!keep.bin\n/cache\n", "pkg/keep.bin": "x", "pkg/cache/c": "x", "cache/c": "x",
		"env/pyvenv.cfg": "home = /usr/bin", "env/bin/activate": "x",
	})
	p := packInto(t, dir)
	want := []string{".gitignore", "cache/c", "pkg/.gitignore", "pkg/keep.bin", "pkg/out/log", "train.py"}
	if !slices.Equal(p.names, want) {
		t.Errorf("there are %v, want %v", p.names, want)
	}
	if p.Ignored != ".env, a.bin, out and 1 more" {
		t.Errorf("left behind: %q", p.Ignored)
	}
	put(t, dir, map[string]string{IgnoreFile: "*.bin\n"})
	if p := packInto(t, dir); !slices.Contains(p.names, ".env") || p.Ignored != "" {
		t.Errorf("with a %s: %v, %q", IgnoreFile, p.names, p.Ignored)
	}
}

// A link that leads outside is refused, unless it is excluded: also if it is named as a folder.
func TestLinkThatStaysBehind(t *testing.T) {
	for pattern, good := range map[string]bool{"data": true, "data/": true, "other/": false} {
		dir := t.TempDir()
		put(t, dir, map[string]string{"train.py": "x", IgnoreFile: pattern + "\n"})
		if err := errors.Join(os.Symlink(t.TempDir(), filepath.Join(dir, "data")), os.Symlink("/usr", filepath.Join(dir, ".venv"))); err != nil {
			t.Fatal(err)
		}
		if _, err := Pack(t.Context(), dir, io.Discard, Options{}); (err == nil) != good {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

type packed struct {
	Packed
	names []string
}

func packInto(t *testing.T, dir string) packed {
	t.Helper()
	var text bytes.Buffer
	p, err := Pack(t.Context(), dir, &text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := Unpack(t.Context(), &text, to, "", 0); err != nil {
		t.Fatal(err)
	}
	return packed{p, names(t, to)}
}
