// Command release builds everything in a release: for each system an archive, a wheel for pip and a list of components (SBOM); deb and rpm
// packages for Linux; an image with its chart; a Homebrew formula; checksums, and their signature. The same sources, version and Go give
// the same bytes.
//
//	release -out dist -version v0.1.0 [-image REGISTRY/NAME] [-url ADDRESS] [OS/ARCH...]
//
// The signature is minisign's, with the key in TIERML_RELEASE_KEY and its password in TIERML_RELEASE_PASSWORD; without a key there is none.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	r := release{env: os.Environ()}
	flag.StringVar(&r.out, "out", "dist", "folder to write")
	flag.StringVar(&r.version, "version", "dev", "version, such as v0.1.0 or what git describe says")
	flag.StringVar(&r.image, "image", "", "name of the image in the chart, such as registry.example.com/tierml; empty: the chart has none")
	flag.StringVar(&r.url, "url", "https://github.com/tierml/tierml/releases/download", "address below which releases are, for the formula")
	flag.StringVar(&r.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "file of authorities for the image")
	flag.Parse()
	r.targets = flag.Args()
	if len(r.targets) == 0 {
		r.targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
	}
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a release being built.
type release struct {
	root, out, version, image, url, certificates string
	targets                                      []string
	env                                          []string
	stamp                                        time.Time // of all files
	extras                                       []file    // contents of every archive and package
	made                                         []string  // names in out
}

// build is the program for one system.
type build struct{ system, arch, program string }

func (r *release) make() error {
	root, err := r.command("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r.root = root
	seconds, err := r.command(r.root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.stamp = time.Unix(unix, 0).UTC()
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.collect(work); err != nil {
		return err
	}
	var images []string
	for _, target := range r.targets {
		b, err := r.compile(work, target)
		if err != nil {
			return err
		}
		steps := []func(build) error{r.archive, r.wheel, r.sbom}
		if b.system == "linux" {
			steps = append(steps, r.packages)
			images = append(images, target+"="+b.program)
		}
		for _, step := range steps {
			if err := step(b); err != nil {
				return fmt.Errorf("%s: %w", target, err)
			}
		}
	}
	return errors.Join(r.container(images), r.formula(), r.checksums())
}

// compile builds the program. The caller's GOFLAGS, which make sets for fast builds, are ignored in favour of RELEASE_GOFLAGS.
func (r *release) compile(work, target string) (build, error) {
	system, arch, both := strings.Cut(target, "/")
	if !both {
		return build{}, fmt.Errorf("%q is not OS/ARCH", target)
	}
	fmt.Println("building for", target)
	b := build{system, arch, filepath.Join(work, system+"-"+arch, "tierml")}
	r.env = append(os.Environ(), "GOFLAGS="+os.Getenv("RELEASE_GOFLAGS"), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	defer func() { r.env = os.Environ() }()
	_, err := r.command(r.root, cmp.Or(os.Getenv("GO"), "go"), "build", "-trimpath", "-buildvcs=false", "-tags", "disable_grpc_modules", "-ldflags", "-s -w -X github.com/tierml/tierml/cmd/tierml/internal/cli.BuildVersion="+r.version, "-o", b.program, "./cmd/tierml")
	return b, err
}

func (r *release) command(folder, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env, c.Stderr = folder, r.env, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// write adds a file to the release.
func (r *release) write(name string, content []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// number returns the version without its v, as in archives.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

var (
	tagged   = regexp.MustCompile(`^v(\d+\.\d+\.\d+)$`)
	describe = regexp.MustCompile(`^v(\d+\.\d+\.\d+)-(\d+)-g([0-9a-f]+)(-dirty)?$`)
	letters  = regexp.MustCompile(`[^a-z0-9]+`)
)

// public returns the version as pip, dpkg and rpm order it: a build between releases has the previous release's version plus a suffix.
func (r *release) public() string {
	if m := tagged.FindStringSubmatch(r.version); m != nil {
		return m[1]
	}
	if m := describe.FindStringSubmatch(r.version); m != nil {
		return m[1] + "+" + m[2] + "." + m[3] + strings.ReplaceAll(m[4], "-", ".")
	}
	return "0.0.0+" + strings.Trim(letters.ReplaceAllString(strings.ToLower(r.version), "."), ".")
}
