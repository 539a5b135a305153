package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/location"
)

// Written objects can be read, completely or in part, listed and removed; an unfinished write leaves nothing.
func TestWriteListRemove(t *testing.T) {
	for name, folder := range map[string]func(*testing.T) string{
		"path": func(t *testing.T) string { return filepath.Join(t.TempDir(), "deep", "down") },
		"file": func(t *testing.T) string { return "file://" + filepath.Join(t.TempDir(), "deep") },
		"s3": func(t *testing.T) string {
			backend := s3mem.New()
			if err := backend.CreateBucket("data"); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(gofakes3.New(backend).Server())
			t.Cleanup(server.Close)
			t.Setenv("AWS_ACCESS_KEY_ID", "id")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			return "s3://data/some/where?region=us-east-1&endpoint=" + server.URL
		},
		"gs": func(t *testing.T) string {
			server, address := newGCS(t)
			t.Cleanup(server.Stop)
			server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "data"})
			t.Setenv("STORAGE_EMULATOR_HOST", address)
			return "gs://data/some/where"
		},
	} {
		t.Run(name, func(t *testing.T) { writeListRemove(t, folder(t)) })
	}
}

func writeListRemove(t *testing.T, folder string) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if none, err := List(ctx, folder); err != nil || len(none) != 0 {
		t.Fatalf("nothing is there yet: %v %v", none, err)
	}
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		}
	}
	must(Write(ctx, location.Join(folder, "a", "one"), text("first")))
	must(Write(ctx, location.Join(folder, "a", "one"), text("0123456789")))
	must(Write(ctx, location.Join(folder, "two"), text("2")))
	broken := errors.New("half-way")
	err := Write(ctx, location.Join(folder, "torn"), func(w io.Writer) error { return errors.Join(text("some")(w), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("a write that failed says %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if err := Write(stopped, location.Join(folder, "unwanted"), text("x")); err == nil {
		t.Error("written though nobody wanted it any more")
	}
	got, err := List(ctx, folder)
	must(err)
	if want := []Object{{"a/one", 10}, {"two", 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
	r, err := OpenRange(ctx, location.Join(folder, "a/one"), 3, 4)
	must(err)
	part, err := io.ReadAll(r)
	must(errors.Join(err, r.Close()))
	if string(part) != "3456" {
		t.Errorf("bytes 3 to 6 are %q", part)
	}
	if got := read(t, location.Join(folder, "two")); got != "2" {
		t.Errorf("two is %q", got)
	}
	must(Remove(ctx, location.Join(folder, "a/one")))
	must(Remove(ctx, location.Join(folder, "a/one")))
	must(Remove(ctx, location.Join(folder, "two")))
	if left, err := List(ctx, folder); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// A full disk is reported, and the existing contents stay.
func TestWriteToAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full: run it on Linux")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	name := filepath.Join(t.TempDir(), "x")
	for i, content := range []string{"good", ""} {
		err := Write(t.Context(), name, func(w io.Writer) error {
			if content == "" {
				_, err := full.Write([]byte("x"))
				return err
			}
			_, err := fmt.Fprint(w, content)
			return err
		})
		if (err == nil) != (i == 0) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if got := read(t, name); got != "good" {
		t.Errorf("left: %q", got)
	}
	under := filepath.Join(name, "below")
	if err := Write(t.Context(), under, func(io.Writer) error { return nil }); err == nil {
		t.Error("written below a file")
	}
	if _, err := Open(t.Context(), "file://"+name+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
}
