package decompress

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/ulikunitz/xz"
)

// TestParquet: a table in a Parquet file is read like the equivalent CSV.
func TestParquet(t *testing.T) {
	type row struct {
		Name  string    `parquet:"name,dict"`
		N     int32     `parquet:"n"`
		X     float64   `parquet:"x"`
		Maybe *float32  `parquet:"maybe,optional"`
		Yes   bool      `parquet:"yes"`
		Day   int32     `parquet:"day,date"`
		At    time.Time `parquet:"at,timestamp(microsecond)"`
		Price int64     `parquet:"price,decimal(2:9)"`
	}
	half := float32(.5)
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1))
	_, err := w.Write([]row{
		{"Paris, France", 3, 1.25, &half, true, 19724, time.Date(2024, 1, 2, 3, 4, 5, 600_000_000, time.UTC), -1234},
		{`a "b"`, -3, 1e-7, nil, false, 0, time.Unix(0, 0), 5},
	})
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	plain, err := Reader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(plain)
	want := "name,n,x,maybe,yes,day,at,price\n\"Paris, France\",3,1.25,0.5,true,2024-01-02,2024-01-02T03:04:05.6Z,-12.34\n" +
		"\"a \"\"b\"\"\",-3,1e-07,,false,1970-01-01,1970-01-01T00:00:00Z,0.05\n"
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for cut := 0; cut < file.Len(); cut += 37 {
		if plain, err := Reader(bytes.NewReader(append(bytes.Clone(file.Bytes()[:cut]), file.Bytes()[min(cut+5, file.Len()):]...))); err == nil {
			_, _ = io.Copy(io.Discard, plain) // any error, no panic
		}
	}
}

func TestXZ(t *testing.T) {
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("user,item,rating\n", 1000)
	if _, err := io.WriteString(w, want); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	plain, err := Reader(bytes.NewReader(packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(plain); err != nil || string(got) != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if plain, err := Reader(bytes.NewReader(packed.Bytes()[:packed.Len()-9])); err == nil {
		if _, err := io.ReadAll(plain); err == nil {
			t.Error("a file that is cut short was read")
		}
	}
}
