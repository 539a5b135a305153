package splitdir_test

import (
	"io"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

func TestWhatIsCreatedCanBeOpened(t *testing.T) {
	for _, create := range []func(string) apps.Create{splitdir.Create, splitdir.CreateTemporary} {
		createAndOpen(t, create)
	}
}

func createAndOpen(t *testing.T, create func(string) apps.Create) {
	t.Helper()
	directory := t.TempDir()
	w, err := create(directory)(7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "seven"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{directory, "file://" + directory} {
		r, err := splitdir.Open(location, 7)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || string(data) != "seven" {
			t.Errorf("%s: read %q, %v", location, data, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOtherLocationsAreRefused(t *testing.T) {
	for _, location := range []string{"", "relative", "ftp://bucket/splits", "file://host/splits"} {
		if _, err := splitdir.Open(location, 1); err == nil {
			t.Errorf("%q was opened", location)
		}
	}
}
