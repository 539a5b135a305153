package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aead.dev/minisign"
	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists the modules inside a program, in CycloneDX format.
func (r *release) sbom(b build) error {
	info, err := buildinfo.ReadFile(b.program)
	if err != nil {
		return err
	}
	module := func(kind cdx.ComponentType, path, version string) cdx.Component {
		url := "pkg:golang/" + path + "@" + version
		return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
	}
	main := module(cdx.ComponentTypeApplication, info.Main.Path, r.version)
	parts := []cdx.Component{module(cdx.ComponentTypeLibrary, "std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := module(cdx.ComponentTypeLibrary, m.Path, m.Version)
		parts = append(parts, part)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = "" // a random one would make builds differ
	bom.Metadata = &cdx.Metadata{Timestamp: r.stamp.Format("2006-01-02T15:04:05Z"), Component: &main}
	bom.Components = &parts
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return r.write("tierml_"+r.number()+"_"+b.system+"_"+b.arch+".cdx.json", text.Bytes())
}

// formula returns Homebrew's formula: it installs the archive for its system.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, "class Tierml < Formula\n  desc \"Trains models and runs programs on spot machines\"\n  homepage \"https://github.com/tierml/tierml\"\n  version %q\n  license \"Apache-2.0\"\n", r.public())
	for _, system := range []struct{ name, block string }{{"darwin", "on_macos"}, {"linux", "on_linux"}} {
		var inside strings.Builder
		for _, arch := range []struct{ name, block string }{{"arm64", "on_arm"}, {"amd64", "on_intel"}} {
			name := "tierml_" + r.number() + "_" + system.name + "_" + arch.name + ".tar.gz"
			if !slices.Contains(r.made, name) {
				continue
			}
			sum, err := r.sum(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&inside, "    %s do\n      url \"%s/%s/%s\"\n      sha256 \"%s\"\n    end\n", arch.block, r.url, r.version, name, sum)
		}
		if inside.Len() > 0 {
			fmt.Fprintf(&b, "\n  %s do\n%s  end\n", system.block, inside.String())
		}
	}
	b.WriteString(`
  def install
    bin.install "tierml"
    man1.install "man/tierml.1"
    man5.install "man/tierml-job.5"
    bash_completion.install "completions/tierml.bash" => "tierml"
    zsh_completion.install "completions/_tierml"
    fish_completion.install "completions/tierml.fish"
    pkgshare.install "examples", "docs", "terraform", "deploy"
  end

  test do
    assert_match "` + r.version + `", shell_output("#{bin}/tierml version")
  end
end
`)
	return r.write("tierml.rb", []byte(b.String()))
}

func (r *release) sum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.out, name))
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), err
}

// checksums writes and signs the sums of all files.
func (r *release) checksums() error {
	slices.Sort(r.made)
	var b bytes.Buffer
	for _, name := range r.made {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	if err := os.WriteFile(filepath.Join(r.out, "checksums.txt"), b.Bytes(), 0o644); err != nil {
		return err
	}
	os.Stdout.Write(b.Bytes())
	key := os.Getenv("TIERML_RELEASE_KEY")
	if key == "" {
		fmt.Println("not signed: TIERML_RELEASE_KEY has no key")
		return nil
	}
	private, err := minisign.DecryptKey(os.Getenv("TIERML_RELEASE_PASSWORD"), []byte(key))
	if err != nil {
		return errors.Join(errors.New("reading TIERML_RELEASE_KEY, a key of minisign"), err)
	}
	signature := minisign.SignWithComments(private, b.Bytes(), "tierml "+r.version, "signature of checksums.txt")
	return os.WriteFile(filepath.Join(r.out, "checksums.txt.minisig"), signature, 0o644)
}
