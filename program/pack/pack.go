// Package pack packs a directory into one file and unpacks it: the folder that a program runs in, on its way to the machines. Paths in
// .tierignore, or without one in .gitignore, are left out. It does not know where the file goes.
package pack

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tierml/tierml/internal/progress"
)

// IgnoreFile lists what is not packed, in the syntax of .gitignore.
const IgnoreFile = ".tierignore"

// gitIgnore applies if there is no IgnoreFile.
const gitIgnore = ".gitignore"

// Most is the default bound of a folder's size.
const Most = 2 << 30

// Options configures packing.
type Options struct {
	Skip []string // further paths below the folder to leave out
	Most int64    // bytes; 0 = the default
	// Whole: everything is packed, however large, including what is always left out of programs' folders.
	Whole bool
}

// Packed is the result of Pack.
type Packed struct {
	Digest string // SHA-256 of the packed file
	Bytes  int64  // of the files, unpacked
	Files  int    // without folders
	// Largest are the three largest files or folders, with their sizes; Ignored are the first three paths left out by a .gitignore.
	Largest, Ignored string
}

// Copy copies a packed folder unchanged, and inspects it meanwhile.
func Copy(ctx context.Context, name string, to io.Writer) (p Packed, err error) {
	from, err := os.Open(name)
	if err != nil {
		return p, err
	}
	defer from.Close()
	sum := sha256.New()
	all := io.TeeReader(from, io.MultiWriter(to, sum))
	z, err := zstd.NewReader(all, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return p, err
	}
	defer z.Close()
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return p, fmt.Errorf("%s is no packed folder: %w", name, err)
		}
		if header.Typeflag != tar.TypeDir {
			p.Files++
		}
		if p.Bytes += header.Size; p.Bytes > Most {
			return p, fmt.Errorf("the folder in %s has more than the %s that are sent to each machine", name, progress.Size(Most))
		}
	}
	if _, err := io.Copy(io.Discard, all); err != nil {
		return p, err
	}
	p.Digest = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// Contents returns what a packed folder holds: files by a digest of their contents, links by their targets. Times and permissions do not
// count.
func Contents(from io.Reader) (map[string]string, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	contents := map[string]string{}
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return contents, nil
		}
		sum := sha256.New()
		if err == nil {
			_, err = io.Copy(sum, t)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a packed folder: %w", err)
		}
		contents[header.Name] = header.Linkname + hex.EncodeToString(sum.Sum(nil))
	}
}

// file is a file to pack.
type file struct {
	path string // with slashes
	info fs.FileInfo
}

// Pack writes a folder's files as a tar archive, compressed with Zstandard. The same files give the same bytes.
func Pack(ctx context.Context, dir string, to io.Writer, o Options) (Packed, error) {
	real, err := filepath.EvalSymlinks(dir) // the folder itself may be a link
	if err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", dir, err)
	}
	dir = real
	files, total, left, err := find(ctx, dir, o)
	if err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", dir, err)
	}
	if o.Most == 0 {
		o.Most = Most
	}
	if total > o.Most && !o.Whole {
		return Packed{}, fmt.Errorf("the folder %s has %s, more than the %s that are sent to each machine; the largest: %s. "+
			"List in %s what the program does not need, and put large data into a bucket", dir, progress.Size(total), progress.Size(o.Most), largest(files), filepath.Join(dir, IgnoreFile))
	}
	sum := sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(to, sum), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return Packed{}, err
	}
	t := tar.NewWriter(z)
	count := 0
	for _, f := range files {
		if !f.info.IsDir() {
			count++
		}
		if err := add(ctx, t, dir, f); err != nil {
			return Packed{}, errors.Join(fmt.Errorf("pack %s: %w", filepath.Join(dir, f.path), err), z.Close())
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", dir, err)
	}
	return Packed{Digest: hex.EncodeToString(sum.Sum(nil)), Bytes: total, Files: count, Largest: largest(files), Ignored: some(left)}, nil
}

// find returns the paths to pack, sorted, and those that a .gitignore leaves out.
func find(ctx context.Context, dir string, o Options) (files []file, total int64, left []string, err error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, 0, nil, err
	} else if !info.IsDir() {
		return nil, 0, nil, fmt.Errorf("%s is not a folder", dir)
	}
	behind, err := readIgnored(dir)
	if err != nil {
		return nil, 0, nil, err
	}
	err = filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		below, err := filepath.Rel(dir, full)
		if err != nil || below == "." {
			return err
		}
		below = filepath.ToSlash(below)
		folder := d.IsDir()
		if d.Type() == fs.ModeSymlink { // one to a folder is named like a folder
			to, err := os.Stat(full)
			folder = err == nil && to.IsDir()
		}
		ignore, byGit := behind.match(below, folder)
		if slices.Contains(o.Skip, below) || !o.Whole && ignore {
			if byGit {
				left = append(left, below)
			}
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() && !o.Whole {
			if err := behind.enter(below); err != nil {
				return err
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
			return nil // sockets, pipes and devices
		}
		if info.Mode().IsRegular() {
			total += info.Size()
		}
		files = append(files, file{below, info})
		return nil
	})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, total, left, err
}

// add writes one file with its name, permissions and time; its owner does not matter on another machine.
func add(ctx context.Context, t *tar.Writer, dir string, f file) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	header := &tar.Header{Name: f.path, Mode: int64(f.info.Mode().Perm()), ModTime: f.info.ModTime().UTC(), Format: tar.FormatPAX}
	full := filepath.Join(dir, filepath.FromSlash(f.path))
	switch {
	case f.info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, f.path+"/"
		return t.WriteHeader(header)
	case f.info.Mode().Type() == fs.ModeSymlink:
		to, err := os.Readlink(full)
		if err != nil {
			return err
		}
		if to = filepath.ToSlash(to); !localLink(f.path, to) {
			return fmt.Errorf("it is a link to %s, which is outside of the folder and not on the machines: copy the file, or list it in %s", to, IgnoreFile)
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, to
		return t.WriteHeader(header)
	}
	header.Typeflag, header.Size = tar.TypeReg, f.info.Size()
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	from, err := os.Open(full)
	if err != nil {
		return err
	}
	defer from.Close()
	n, err := io.Copy(t, io.LimitReader(from, header.Size))
	if err == nil && n < header.Size {
		err = errors.New("it became shorter while it was read")
	}
	return err
}

func localLink(from, to string) bool {
	return !path.IsAbs(to) && filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(from), to)))
}

// largest names the three largest files or, if a folder directly below has most of the bytes, the folder.
func largest(files []file) string {
	bytes := map[string]int64{}
	for _, f := range files {
		if f.info.Mode().IsRegular() {
			bytes[f.path] = f.info.Size()
			if top, _, deep := strings.Cut(f.path, "/"); deep {
				bytes[top+"/"] += f.info.Size()
			}
		}
	}
	names := make([]string, 0, len(bytes))
	for name := range bytes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if bytes[a] != bytes[b] {
			return int(max(-1, min(1, bytes[b]-bytes[a])))
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names[:min(3, len(names))] {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, progress.Size(bytes[name])))
	}
	return strings.Join(parts, ", ")
}

// some names the first three of a list.
func some(names []string) string {
	if more := len(names) - 3; more > 0 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// Unpack writes an archive's files below a directory, replacing those of the same name. With a path, only that path and everything below.
// It writes nothing outside of the directory, and at most `most` bytes (0 = the default bound).
func Unpack(ctx context.Context, from io.Reader, dir, only string, most int64) error {
	if most == 0 {
		most = Most
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	only = strings.Trim(path.Clean("/"+filepath.ToSlash(only)), "/")
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		name := strings.TrimSuffix(header.Name, "/")
		if only != "" && name != only && !strings.HasPrefix(name, only+"/") {
			continue
		}
		if most -= header.Size; most < 0 {
			return errors.New("unpack: the folder is larger than it may be")
		}
		if err := place(root, name, header, t); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
}

func place(root *os.Root, name string, header *tar.Header, content io.Reader) error {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return errors.New("it is outside of the folder")
	}
	mode := fs.FileMode(header.Mode).Perm()
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(local, mode|0o700)
	}
	if err := root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	if err := root.RemoveAll(local); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		if !localLink(name, header.Linkname) {
			return fmt.Errorf("its target %s is outside of the folder", header.Linkname)
		}
		return root.Symlink(filepath.FromSlash(header.Linkname), local)
	case tar.TypeReg:
		file, err := root.OpenFile(local, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close(), root.Chtimes(local, header.ModTime, header.ModTime))
	}
	return fmt.Errorf("it is of a kind (%c) that is not packed", header.Typeflag)
}
