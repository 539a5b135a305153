package advisor

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

const sample = `{"ranges": [
  {"index": 0, "label": "<5%", "dots": 0, "max": 5}, {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
  {"index": 4, "label": ">20%", "dots": 4, "max": 100}],
 "spot_advisor": {"us-east-1": {"Linux": {"m5.large": {"s": 61, "r": 0}, "c5.large": {"s": 40, "r": 4}}, "Windows": {"m5.large": {"s": 1, "r": 4}}}}}`

func TestRead(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(sample)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, text := range []string{sample, zipped.String()} {
		table, err := Read(strings.NewReader(text))
		if err != nil || len(table.advice) != 2 {
			t.Fatal(table, err)
		}
		calm, ok := table.Lookup("us-east-1", "m5.large")
		if !ok || calm.Saving != 61 || calm.Band != (Band{"<5%", 0, 5}) {
			t.Errorf("%+v %v", calm, ok)
		}
		wild, _ := table.Lookup("us-east-1", "c5.large")
		if wild.Band != (Band{">20%", 11, 35}) {
			t.Errorf("%+v", wild)
		}
		if _, ok := table.Lookup("us-east-1", "m5.xlarge"); ok {
			t.Error("advice about a type that is not there")
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":             "EOF",
		`{"Spot": 1}`:  "another file",
		"\x1f\x8bnope": "",
		strings.Replace(sample, `"r": 4`, `"r": 9`, 1):      "no range 9",
		strings.Replace(sample, `"max": 11`, `"max": 1`, 1): "before it begins",
	} {
		if table, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v %v", text, table, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, a := range table.advice {
			if b := a.Band; b.Low < 0 || b.High <= b.Low || b.High > 100 {
				t.Errorf("band %+v", b)
			}
		}
	})
}
