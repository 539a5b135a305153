package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/goreleaser/nfpm/v2/files"
)

// The checksums are signed with the key from the environment: minisign verifies them with its public half.
func TestChecksumsAreSigned(t *testing.T) {
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := minisign.EncryptKey("secret", private)
	if err != nil {
		t.Fatal(err)
	}
	sign := func() (sums, signature []byte, err error) {
		t.Setenv("TIERML_RELEASE_KEY", string(key))
		t.Setenv("TIERML_RELEASE_PASSWORD", "secret")
		r := release{out: t.TempDir(), version: "v0.1.0"}
		if err := r.write("tierml.rb", []byte("class Tierml < Formula")); err != nil {
			t.Fatal(err)
		}
		if err := r.checksums(); err != nil {
			return nil, nil, err
		}
		sums, _ = os.ReadFile(filepath.Join(r.out, "checksums.txt")) // compared below
		signature, err = os.ReadFile(filepath.Join(r.out, "checksums.txt.minisig"))
		return sums, signature, err
	}
	sums, signature, err := sign()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(sums), "  tierml.rb\n") || !minisign.Verify(public, sums, signature) {
		t.Errorf("the key's public half does not verify\n%s\n%s", sums, signature)
	}
	if minisign.Verify(public, append(sums, ' '), signature) {
		t.Error("other checksums verify, too")
	}
}

// An rpm owns the folders that are removed with it, and none of the system's.
func TestAnRPMOwnsItsFolders(t *testing.T) {
	var contents files.Contents
	for _, name := range []string{"/usr/bin/tierml", "/usr/share/man/man1/tierml.1", "/usr/share/fish/vendor_completions.d/tierml.fish", "/usr/share/doc/tierml/docs/images/run.png"} {
		contents = append(contents, &files.Content{Destination: name, FileInfo: &files.ContentFileInfo{}})
	}
	var names []string
	for _, dir := range owned(contents) {
		names = append(names, dir.Destination)
	}
	if want := []string{"/usr/share/doc/tierml", "/usr/share/doc/tierml/docs", "/usr/share/doc/tierml/docs/images", "/usr/share/fish", "/usr/share/fish/vendor_completions.d"}; !slices.Equal(names, want) {
		t.Errorf("it owns %q", names)
	}
}
