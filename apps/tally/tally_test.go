package tally

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/ps"
)

type file struct{ *bytes.Buffer }

func (file) Close() error { return nil }

// The counts equal Expected.
func TestExpected(t *testing.T) {
	const splits, clocks = 5, 9
	files := map[ps.Split]file{}
	data, err := Kind{}.Prepare(apps.Input{}, apps.Cut{Splits: splits}, func(s ps.Split) (io.WriteCloser, error) {
		files[s] = file{&bytes.Buffer{}}
		return files[s], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Kind{}.New(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	open := func(s ps.Split) (io.ReadCloser, error) { return file{bytes.NewBuffer(files[s].Bytes())}, nil }
	trainer, err := local.New(p, ps.Schema{Splits: splits}, open)
	if err != nil {
		t.Fatal(err)
	}
	for range clocks {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	m, err := p.Export(trainer, open)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range Expected(splits, clocks) {
		if got, ok := m.Tensor(name); !ok || !slices.Equal(got.Int32, want) {
			t.Errorf("table %s holds %v, want %v", name, got.Int32, want)
		}
	}
}
