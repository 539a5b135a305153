package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// places are the folders for archived files on a Linux system.
var places = []struct{ below, to string }{
	{"completions/tierml.bash", "/usr/share/bash-completion/completions/tierml"},
	{"completions/_tierml", "/usr/share/zsh/vendor-completions/_tierml"},
	{"completions/tierml.fish", "/usr/share/fish/vendor_completions.d/tierml.fish"},
	{"man/tierml.1", "/usr/share/man/man1/tierml.1"},
	{"man/tierml-job.5", "/usr/share/man/man5/tierml-job.5"},
	{"", "/usr/share/doc/tierml/"},
}

// owned returns the folders of some files that systems may lack, outermost first. An rpm has to list them, or they remain when it is
// removed.
func owned(contents files.Contents) (folders files.Contents) {
	all := map[string]bool{}
	for _, c := range contents {
		for dir := path.Dir(c.Destination); strings.Contains(dir, "/tierml") || strings.Contains(dir, "/zsh") || strings.Contains(dir, "/fish"); dir = path.Dir(dir) {
			all[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		folders = append(folders, &files.Content{Destination: dir, Type: files.TypeDir, Packager: "rpm", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: contents[0].FileInfo.MTime}})
	}
	return folders
}

// packages builds a deb and an rpm: the program, its pages, examples and modules. They start no service.
func (r *release) packages(b build) error {
	folder, err := os.MkdirTemp("", "packages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	contents := files.Contents{{Source: b.program, Destination: "/usr/bin/tierml", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.stamp}}}
	for _, f := range r.extras {
		source := filepath.Join(folder, filepath.FromSlash(f.name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(source), 0o755), os.WriteFile(source, f.content, f.mode)); err != nil {
			return err
		}
		for _, p := range places {
			if rest, ok := strings.CutPrefix(f.name, p.below); ok {
				contents = append(contents, &files.Content{Source: source, Destination: p.to + rest, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.stamp}})
				break
			}
		}
	}
	contents = append(contents, owned(contents)...)
	for _, format := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "tierml", Arch: b.arch, Platform: "linux", Version: r.public(), VersionSchema: "none", Release: "1", Section: "utils", MTime: r.stamp,
			Maintainer: "TierML <maintainers@tierml.dev>", Homepage: "https://github.com/tierml/tierml", License: "Apache-2.0", DisableGlobbing: true,
			Description:  "Trains models and runs programs on spot machines\nIt buys spot machines, saves work before they are lost, and says what it costs.",
			Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "tierml"}},
		})
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		var packed bytes.Buffer
		if err := packager.Package(info, &packed); err != nil {
			return err
		}
		if err := r.write(packager.ConventionalFileName(info), packed.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
