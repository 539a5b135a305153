package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read reads a blob by its descriptor, and checks that it is what that says.
func (l layout) read(t *testing.T, d descriptor) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(string(l), "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:")))
	if err != nil {
		t.Fatal(err)
	}
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Errorf("%s has other bytes", d.Digest)
	}
	return data
}

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
}

// program returns the header of an ELF file, of one that has an interpreter if it is dynamic, and a word.
func program(t *testing.T, machine elf.Machine, dynamic bool, word string) string {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phoff: 64, Phentsize: 56}
	copy(h.Ident[:], append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)))
	if dynamic {
		h.Phnum = 1
	}
	var b bytes.Buffer
	if err := errors.Join(binary.Write(&b, binary.LittleEndian, h), binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)})); err != nil {
		t.Fatal(err)
	}
	return b.String() + word
}

// An image can be read as the specification says, has the program and the certificates, and is the same when it is made again.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	amd64, arm64 := program(t, elf.EM_X86_64, false, "for amd64"), program(t, elf.EM_AARCH64, false, "for arm64")
	args := []string{filepath.Join(dir, "out"), write("ca", "certificates"), "linux/amd64=" + write("a", amd64), "linux/arm64=" + write("b", arm64)}
	var before []byte
	for range 2 {
		if err := run(args); err != nil {
			t.Fatal(err)
		}
		top, err := os.ReadFile(filepath.Join(args[0], "index.json"))
		if err != nil || before != nil && !bytes.Equal(top, before) {
			t.Fatalf("made again: %s, before %s, %v", top, before, err)
		}
		before = top
	}
	l := layout(args[0])
	var top, index struct{ Manifests []descriptor }
	decode(t, before, &top)
	decode(t, l.read(t, top.Manifests[0]), &index)
	for i, want := range []struct{ arch, program string }{{"amd64", amd64}, {"arm64", arm64}} {
		m := index.Manifests[i]
		if m.Platform == nil || m.Platform.Architecture != want.arch {
			t.Errorf("%+v", m)
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		decode(t, l.read(t, m), &manifest)
		var config struct {
			Architecture string
			Config       struct{ User string }
			RootFS       struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		decode(t, l.read(t, manifest.Config), &config)
		unpacked, err := gzip.NewReader(bytes.NewReader(l.read(t, manifest.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != want.arch || config.Config.User != user || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != digest(plain) {
			t.Errorf("%+v", config)
		}
		files := map[string]string{}
		for r := tar.NewReader(bytes.NewReader(plain)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if files[h.Name] = string(text); h.Name == "tierml" && h.Mode != 0o755 {
				t.Errorf("mode %o", h.Mode)
			}
		}
		if files["tierml"] != want.program || files["etc/ssl/certs/ca-certificates.crt"] != "certificates" {
			t.Errorf("%v", files)
		}
	}
	for wrong, says := range map[string]string{
		"linux":                            "is not OS/ARCH=PROGRAM",
		"linux/amd64=" + write("c", arm64): "a program for EM_AARCH64, not for amd64",
		"linux/amd64=" + write("d", program(t, elf.EM_X86_64, true, "")): "not static",
		"linux/amd64=" + write("e", "#!/bin/sh"):                         "no program for Linux",
	} {
		if err := run(append(args, wrong)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", wrong, err, says)
		}
	}
}
