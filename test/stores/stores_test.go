// Package stores_test stores a run's data in object stores and reads it back: the program, splits, checkpoints. The stores are independent
// programs.
package stores_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/checkpoint"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// versityEndpoint is where a versitygw is, with the keys in the environment and a bucket called tierml: `make test-stores`
// starts one.
const versityEndpoint = "TIERML_VERSITYGW_ENDPOINT"

// TestVersityGW: versitygw is an S3 server that checks signatures and checksums, and keeps objects in files.
func TestVersityGW(t *testing.T) {
	endpoint := os.Getenv(versityEndpoint)
	if endpoint == "" {
		t.Skipf("%s is not set: make test-stores starts a versitygw", versityEndpoint)
	}
	folder := "s3://tierml/prefix?region=us-east-1&endpoint=" + endpoint
	carry(t, folder)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	if err := blob.Write(t.Context(), location.Join(folder, "forged"), words("x")); err == nil {
		t.Error("it takes what somebody with another key has signed")
	}
	if _, err := blob.Open(t.Context(), location.Join(folder, "program")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with another key reading says %v", err)
	}
}

func TestGoFakeS3(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("tierml"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	carry(t, "s3://tierml/prefix?region=us-east-1&anonymous=true&endpoint="+server.URL)
}

func TestFakeGCSServer(t *testing.T) {
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
	defer server.Stop()
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "tierml"})
	t.Setenv("STORAGE_EMULATOR_HOST", at.String())
	carry(t, "gs://tierml/prefix")
}

func words(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// carry stores everything and reads it back.
func carry(t *testing.T, folder string) {
	t.Run("program", func(t *testing.T) { program(t, location.Join(folder, "program")) })
	t.Run("splits", func(t *testing.T) { splits(t, location.Join(folder, "splits")) })
	t.Run("checkpoints", func(t *testing.T) { checkpoints(t, location.Join(folder, "runs", "demo-1")) })
}

// program is larger than one part of an upload.
func program(t *testing.T, name string) {
	source := rand.NewChaCha8([32]byte{1})
	binary := make([]byte, 17<<20+3)
	_, _ = source.Read(binary)
	if err := blob.Write(t.Context(), name, func(w io.Writer) error { _, err := w.Write(binary); return err }); err != nil {
		t.Fatal(err)
	}
	whole, err := blob.Open(t.Context(), name)
	if got := content(t, whole, err); !bytes.Equal(got, binary) {
		t.Errorf("%d bytes came back, not the %d that were written", len(got), len(binary))
	}
	part, err := blob.OpenRange(t.Context(), name, 8<<20-7, 4096)
	if got := content(t, part, err); !bytes.Equal(got, binary[8<<20-7:8<<20-7+4096]) {
		t.Errorf("a part of it is not what was written: %d bytes", len(got))
	}
	if _, err := blob.Open(t.Context(), location.Beside(name, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there gives %v", err)
	}
}

func content(t *testing.T, r io.ReadCloser, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return text
}

func splits(t *testing.T, folder string) {
	const count = 5
	here := t.TempDir()
	create := splitdir.Create(here)
	for id := range ps.Split(count) {
		w, err := create(id)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(bytes.Repeat([]byte{byte(id)}, 1000*int(id))) // the first is empty
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := splitdir.Upload(t.Context(), here, folder, count); err != nil {
		t.Fatal(err)
	}
	for id := range ps.Split(count) {
		r, err := splitdir.Open(folder, id)
		if got := content(t, r, err); !bytes.Equal(got, bytes.Repeat([]byte{byte(id)}, 1000*int(id))) {
			t.Errorf("split %d has %d bytes", id, len(got))
		}
	}
}

// whole returns a block in one piece.
type whole struct{ rows *ps.Block }

func (w *whole) Next(int) (ps.Block, error) {
	b := w.rows
	w.rows = &ps.Block{}
	return *b, nil
}

func checkpoints(t *testing.T, place string) {
	schema := ps.Schema{Tables: []ps.Table{{Name: "factors", Rows: 300, Cols: 8, Rule: ps.Rule{Name: ps.Add}}}, Partitions: 4, Splits: 4}
	if err := schema.Check(); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, 300*8)
	for i := range values {
		values[i] = float32(i) / 7
	}
	all := []ps.Partition{0, 1, 2, 3}
	blocks := checkpoint.Partitions(schema, [][]float32{values}, all)
	for clock := ps.Clock(10); clock <= 30; clock += 10 {
		folder := fmt.Sprintf("clock-%09d-1.1", clock)
		var sources []checkpoint.Source
		for _, p := range all {
			sources = append(sources, checkpoint.Source{Partition: p, Rows: &whole{blocks[p]}})
		}
		parts, err := checkpoint.SaveParts(t.Context(), location.Join(place, folder), "rows", sources)
		if err != nil {
			t.Fatal(err)
		}
		m, err := checkpoint.NewManifest("demo-1", &schema, clock, folder, parts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Write(t.Context(), place); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkpoint.Prune(t.Context(), place, 2, nil); err != nil {
		t.Fatal(err)
	}
	found, doubts, err := checkpoint.Newest(t.Context(), place, nil)
	if err != nil || len(doubts) > 0 || len(found) != 2 || found[0].Clock != 30 {
		t.Fatalf("%v, doubts %v, %v", found, doubts, err)
	}
	m, err := checkpoint.ReadManifest(t.Context(), found[0].Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context(), found[0].Manifest); err != nil {
		t.Error(err)
	}
	got, err := checkpoint.LoadParts(t.Context(), found[0].Manifest, &schema, 30, all)
	if err != nil {
		t.Fatal(err)
	}
	for p := range got {
		if !slices.Equal(got[p].Values, blocks[p].Values) {
			t.Errorf("partition %d came back otherwise", p)
		}
	}
}
