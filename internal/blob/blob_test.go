package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/location"
)

func read(t *testing.T, name string) string {
	t.Helper()
	r, err := Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A seemingly complete file may be a truncated one, or longer than when it was opened.
func TestAFileThatChangesIsNotHalfRead(t *testing.T) {
	whole := strings.Repeat("1 2 3\n", 1000)
	for what, change := range map[string]func(string) error{
		"cut":     func(path string) error { return os.Truncate(path, 600) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"longer":  func(path string) error { return os.WriteFile(path, []byte(whole+"4 5 6\n"), 0o600) },
		"removed": os.Remove, // a reader that has it open still reads it whole
	} {
		path := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(r)
		if what == "removed" {
			if err != nil || len(rest) != len(whole)-6 {
				t.Errorf("%s: %d bytes, %v", what, len(rest), err)
			}
		} else if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "it had 6000 bytes, and now has") {
			t.Errorf("%s: %v", what, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestS3(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("1 2 3\n", 100_000)
	if _, err := backend.PutObject("data", "some/docword.txt", nil, strings.NewReader(content), int64(len(content)), nil); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	if got := read(t, "s3://data/some/docword.txt"); got != content {
		t.Errorf("%d bytes of %d came", len(got), len(content))
	}
	for _, missing := range []string{"s3://data/other", "s3://nowhere/some/docword.txt"} {
		if _, err := Open(context.Background(), missing); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: error %v, want ErrNotExist", missing, err)
		}
	}
	// The endpoint may be in the URL as well.
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	if got := read(t, "s3://data/some/docword.txt?endpoint="+server.URL); got != content {
		t.Errorf("%d bytes of %d came", len(got), len(content))
	}
}

// newGCS runs a store that speaks GCS's protocol, with these objects.
func newGCS(t *testing.T, objects ...fakestorage.Object) (server *fakestorage.Server, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it needs its own address before it listens
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server, err = fakestorage.NewServerWithOptions(fakestorage.Options{
		Scheme: "http", Host: "127.0.0.1", Port: uint16(at.Port), PublicHost: at.String(), InitialObjects: objects,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, at.String()
}

func TestGCS(t *testing.T) {
	server, address := newGCS(t, fakestorage.Object{
		ObjectAttrs: fakestorage.ObjectAttrs{BucketName: "data", Name: "some/a9a"}, Content: []byte("+1 1:1\n"),
	})
	defer server.Stop()
	t.Setenv("STORAGE_EMULATOR_HOST", address)
	if got := read(t, "gs://data/some/a9a"); got != "+1 1:1\n" {
		t.Errorf("%q came", got)
	}
	if _, err := Open(context.Background(), "gs://data/other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "here" {
		t.Errorf("%q", got)
	}
	if _, err := Open(context.Background(), path+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"some/path": "", "s3://bucket/key": "", "gs://bucket/some/key?x=y": "",
		"http://host/file": `there is no store "http"`, "s3://bucket": "write s3://BUCKET/KEY", "s3:///key": "write s3://BUCKET/KEY",
		"s3://user@bucket/key": "write s3://BUCKET/KEY", "s3://%": "is not a URL",
	} {
		_, err := location.Parse(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
		if _, openErr := Open(context.Background(), name); want != "" && (openErr == nil || openErr.Error() != err.Error()) {
			t.Errorf("%s: Open says %v", name, openErr)
		}
	}
	for name, want := range map[string]string{
		"s3://b/some/docword.txt?region=x": "s3://b/some/vocab.txt?region=x", "gs://b/docword.txt": "gs://b/vocab.txt",
		"/some/docword.txt": "/some/vocab.txt",
	} {
		if got := location.Beside(name, "elsewhere/vocab.txt"); got != want {
			t.Errorf("beside %s: %s, want %s", name, got, want)
		}
	}
}

// S3 denies reading a missing object if the bucket may be listed only below prefixes, as for machines.
func TestMissingObjectThatMayNotBeRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if prefix := r.URL.Query().Get("prefix"); prefix != "" {
			there := ""
			if prefix == "a/hidden" {
				there = "<Contents><Key>a/hidden</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>x</ETag></Contents>"
			}
			_, _ = fmt.Fprintf(w, "<ListBucketResult><Name>bucket</Name>%s</ListBucketResult>", there)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
	}))
	defer server.Close()
	for name, missing := range map[string]bool{"missing": true, "hidden": false} {
		_, err := Open(t.Context(), "s3://bucket/a/"+name+"?region=us-east-1&anonymous=true&endpoint="+server.URL)
		if err == nil || errors.Is(err, fs.ErrNotExist) != missing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With given keys every request is signed with the newest, whatever the environment has; requests to public places are not signed.
func TestGivenKeys(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	var signed []string
	store := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ = strings.Cut(key, "/")
		signed = append(signed, key+" "+r.Header.Get("X-Amz-Security-Token"))
		store.ServeHTTP(w, r)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	n := 0
	UseKeys(func() (Keys, error) {
		n++
		return Keys{AccessKeyID: fmt.Sprint("ASIA", n), SecretAccessKey: "s", SessionToken: "t"}, nil
	})
	defer UseKeys(nil)
	name := "s3://bucket/a/b?region=us-east-1&endpoint=" + server.URL
	if err := Write(t.Context(), name, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
		t.Fatal(err)
	}
	if read(t, name) != "x" || read(t, name+"&anonymous=true") != "x" {
		t.Error("another content")
	}
	if want := []string{"ASIA1 t", "ASIA2 t", " "}; fmt.Sprint(signed) != fmt.Sprint(want) {
		t.Errorf("signed by %q, want %q", signed, want)
	}
}
