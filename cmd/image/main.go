// Command image builds a container image of static programs from scratch, without Docker: an OCI image layout with an image for each
// platform (https://github.com/opencontainers/image-spec, version 1.1). The same files give the same bytes.
//
//	image OUTPUT CERTIFICATES linux/amd64=PROGRAM linux/arm64=PROGRAM
//
// Each image has its PROGRAM, which must be static, as /tierml, and the file CERTIFICATES where programs look for those of authorities.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// user runs the program: an unprivileged user's number, as the pods of providers/kube require.
const user = "65532:65532"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("want OUTPUT, CERTIFICATES and at least one OS/ARCH=PROGRAM")
	}
	l := layout(args[0])
	if err := os.RemoveAll(args[0]); err != nil {
		return err
	}
	certificates, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var images []descriptor
	for _, arg := range args[2:] {
		platform, program, named := strings.Cut(arg, "=")
		system, arch, both := strings.Cut(platform, "/")
		if !named || !both {
			return fmt.Errorf("%q is not OS/ARCH=PROGRAM", arg)
		}
		text, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		if err := runsFrom(text, arch); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		one, err := l.image(system, arch, text, certificates)
		if err != nil {
			return err
		}
		images = append(images, one)
		fmt.Printf("%s %s\n", platform, one.Digest)
	}
	index, err := l.object("application/vnd.oci.image.index.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": images})
	if err != nil {
		return err
	}
	fmt.Println("index", index.Digest)
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(args[0], "index.json"), top, 0o644),
		os.WriteFile(filepath.Join(args[0], "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
}

// machines maps the processors of ELF files to Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// runsFrom checks that a program runs on a processor and is self-contained: images have no libraries.
func runsFrom(program []byte, arch string) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("no program for Linux: %w", err)
	}
	if m, known := machines[arch]; !known || f.Machine != m {
		return fmt.Errorf("a program for %s, not for %s", f.Machine, arch)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("not static: build it with CGO_ENABLED=0")
	}
	return nil
}

// layout is the folder of an image layout.
type layout string

// descriptor points to a blob.
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int       `json:"size"`
	Platform  *platform `json:"platform,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (l layout) blob(kind string, data []byte) (descriptor, error) {
	d := descriptor{MediaType: kind, Digest: digest(data), Size: len(data)}
	name := filepath.Join(string(l), "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:"))
	return d, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644))
}

func (l layout) object(kind string, o any) (descriptor, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(kind, text)
}

// image builds the image of one platform: one layer, its configuration and its manifest.
func (l layout) image(system, arch string, program, certificates []byte) (descriptor, error) {
	plain, err := archive(program, certificates)
	if err != nil {
		return descriptor{}, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed) // without a name and a time
	if _, err := w.Write(plain); err != nil {
		return descriptor{}, err
	}
	if err := w.Close(); err != nil {
		return descriptor{}, err
	}
	layer, err := l.blob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	config, err := l.object("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": arch, "os": system, "config": map[string]any{"User": user, "Entrypoint": []string{"/tierml"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}}})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := l.object("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{layer}})
	manifest.Platform = &platform{system, arch}
	return manifest, err
}

// archive returns the file system of an image.
func archive(program, certificates []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, mode int64, data []byte) error {
		h := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	err := errors.Join(add("etc/", 0o755, nil), add("etc/ssl/", 0o755, nil), add("etc/ssl/certs/", 0o755, nil),
		add("etc/ssl/certs/ca-certificates.crt", 0o644, certificates), add("tierml", 0o755, program), w.Close())
	return b.Bytes(), err
}
