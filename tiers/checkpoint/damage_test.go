package checkpoint

import (
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
)

// Wherever checkpoints are stored, the newest complete and undamaged one counts, and it is read back to the last bit.
func TestNewestThatIsUndamaged(t *testing.T) {
	for name, place := range map[string]func(*testing.T) string{
		"path": func(t *testing.T) string { return filepath.Join(t.TempDir(), "saved") },
		"s3": func(t *testing.T) string {
			backend := s3mem.New()
			if err := backend.CreateBucket("data"); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(gofakes3.New(backend).Server())
			t.Cleanup(server.Close)
			return "s3://data/runs/demo-1?region=us-east-1&anonymous=true&endpoint=" + server.URL
		},
		"gs": func(t *testing.T) string {
			listener, err := net.Listen("tcp", "127.0.0.1:0") // it needs its own address before it listens
			if err != nil {
				t.Fatal(err)
			}
			at := listener.Addr().(*net.TCPAddr)
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Port: uint16(at.Port), PublicHost: at.String()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "data"})
			t.Setenv("STORAGE_EMULATOR_HOST", at.String())
			return "gs://data/runs/demo-1"
		},
	} {
		t.Run(name, func(t *testing.T) { newestThatIsUndamaged(t, place(t)) })
	}
}

func newestThatIsUndamaged(t *testing.T, place string) {
	var schema ps.Schema
	var blocks []*ps.Block
	var manifests []string
	for clock := range ps.Clock(4) {
		s, b, manifest := save(t, place, 10*clock+10, "1.1")
		schema, blocks, manifests = s, b, append(manifests, manifest)
	}
	damage := func(name string, change func([]byte) []byte) {
		t.Helper()
		file, err := blob.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		if err := blob.Write(t.Context(), name, func(w io.Writer) error { _, err := w.Write(change(text)); return err }); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(text []byte) []byte {
		text = slices.Clone(text)
		text[len(text)/2] ^= 1
		return text
	}
	object := func(manifest, name string) string { return location.Join(folderOf(manifest), name) }
	for i, damage := range []func(){
		func() {},
		func() { damage(object(manifests[3], "a.rows"), flip) },
		func() { damage(object(manifests[2], "b.rows"), func(text []byte) []byte { return text[:len(text)-1] }) },
		func() { damage(manifests[1], func(text []byte) []byte { return text[:len(text)/2] }) },
	} {
		damage()
		found, doubts, err := Newest(t.Context(), place, nil)
		if err != nil || len(found) == 0 || found[0].Manifest != manifests[3-i] || len(doubts) != i {
			t.Fatalf("after %d of 4 were damaged: %v, doubts %v, %v", i, found, doubts, err)
		}
	}
	got, err := LoadParts(t.Context(), manifests[0], &schema, 10, []ps.Partition{2, 0})
	if err != nil || !slices.Equal(got[0].Values, blocks[2].Values) || !slices.Equal(got[1].Values, blocks[0].Values) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := LoadParts(t.Context(), manifests[3], &schema, 40, []ps.Partition{0, 1, 2, 3}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged part: %v", err)
	}
	damage(object(manifests[0], "a.rows"), flip)
	if found, doubts, err := Newest(t.Context(), place, nil); err != nil || found != nil || len(doubts) != 4 {
		t.Errorf("when all are damaged: %v, doubts %v, %v", found, doubts, err)
	}
}
