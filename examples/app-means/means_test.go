package means

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/local"
	"github.com/tierml/tierml/apps/splitmem"
	"github.com/tierml/tierml/ps"
)

// The application learns the documented result, with the same arithmetic as on machines, and with any number of threads.
func TestMeans(t *testing.T) {
	var text strings.Builder
	want := []float64{0, 0}
	const n = 100
	for i := range n {
		fmt.Fprintf(&text, "%d,%d\n", i%10, 100-i)
		want[0] += float64(i%10) / n
		want[1] += float64(100-i) / n
	}
	splits := splitmem.Files{}
	data, err := Kind{}.Prepare(apps.Input{Name: "test", Data: strings.NewReader(text.String())}, apps.Cut{Splits: 7}, splits.Create)
	if err != nil || data.Examples != n {
		t.Fatalf("%+v, %v", data, err)
	}
	program, err := Kind{}.New(apps.Params{"step": 0.5}, data)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := local.New(program, ps.Schema{Splits: 7, Partitions: 2, Deterministic: true}, splits.Open)
	if err != nil {
		t.Fatal(err)
	}
	trainer.SetThreads(3)
	for range 60 {
		if _, err := trainer.Step(false); err != nil {
			t.Fatal(err)
		}
	}
	m, err := program.Export(trainer, splits.Open)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range m.Tensors[0].Float {
		if math.Abs(float64(v)-want[i]) > 1e-3 {
			t.Errorf("column %d: learned %v, want %v", i, v, want[i])
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, text := range []string{"1,2\n3\n", "one\n", "1\n"} {
		if _, err := (Kind{}).Prepare(apps.Input{Data: strings.NewReader(text)}, apps.Cut{Splits: 2}, splitmem.Files{}.Create); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if _, err := (Kind{}).New(apps.Params{"pace": 1.0}, apps.Dataset{}); err == nil {
		t.Error("an unknown parameter was taken")
	}
}
