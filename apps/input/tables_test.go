package input

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestReadLIBSVM(t *testing.T) {
	const text = "# a set\n+1 1:0.5 3:-2\n\n-1 # nothing in it\r\n0.5 2:1e3  4:1\t5:7 # more\n"
	want := Sparse{
		Labels: []float64{1, -1, 0.5}, Start: []int{0, 2, 2, 5}, Index: []uint32{0, 2, 1, 3, 4},
		Value: []float32{0.5, -2, 1000, 1, 7}, Features: 5,
	}
	for _, data := range [][]byte{[]byte(text), gzipped(t, text), zstandard(t, text)} {
		if got, err := ReadLIBSVM("f", bytes.NewReader(data), 0); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	beyond, err := readLIBSVM("f", strings.NewReader(text), 0, nil, 8)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(beyond.Index, beyond.Value, beyond.Start) != fmt.Sprint(want.Index, want.Value, want.Start) {
		t.Errorf("beyond memory: %+v; want %+v", beyond, want)
	}
	if err := beyond.Close(); err != nil {
		t.Error(err)
	}
	got, err := ReadLIBSVM("f", strings.NewReader("1 9:1 9:1\n"+text), 1)
	if want.BadLines = 1; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v: a bad line leaves nothing behind", got, err, want)
	}
}

// TestReadLIBSVMInAnyOrder: indices in any order, and a query id, which is left out.
func TestReadLIBSVMInAnyOrder(t *testing.T) {
	want, err := ReadLIBSVM("f", strings.NewReader("1 2:3 5:1 9:4\n-1 1:2\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadLIBSVM("f", strings.NewReader("1 qid:7 9:4 2:3 5:1\n-1 qid:8 1:2\n"), 0)
	want.Queries = true
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestReadLIBSVMFromZero: one index 0 says that all indices count from 0; for a prediction the model says it.
func TestReadLIBSVMFromZero(t *testing.T) {
	got, err := ReadLIBSVM("f", strings.NewReader("1 1:3 4:1\n-1:0.5 3:4 0:2\n"), 0)
	want := Sparse{Labels: []float64{1, -1}, Start: []int{0, 2, 4}, Index: []uint32{1, 4, 0, 3}, Value: []float32{3, 1, 2, 4}, Features: 5, ZeroBased: true, Weighted: 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	got, err = ReadLIBSVMBased("f", strings.NewReader("1 1:3 4:1\n"), 0, true)
	if err != nil || !slices.Equal(got.Index, []uint32{1, 4}) || got.Features != 5 {
		t.Errorf("%+v, %v; want indices 1 and 4", got, err)
	}
	if _, err = ReadLIBSVMBased("f", strings.NewReader("1 0:3 4:1\n"), 0, false); err == nil || !strings.Contains(err.Error(), "count from 1") {
		t.Errorf("an index 0 where the model counts from 1: %v", err)
	}
}

func TestReadLIBSVMErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "f: no examples in it",
		"1 1:1\nx 1:1\n":      `f:2: label "x" is not a finite number`,
		"nan 1:1\n":           `f:1: label "nan" is not a finite number`,
		"1:x 2:1\n":           `f:1: weight "x" is not a number from 0`,
		"1 qd:3 1:1\n":        `f:1: index "qd" is not`,
		"1 2:1 1:3 2:1\n":     "f:1: index 2 is there twice",
		"1 3\n":               `f:1: "3" is not of the form index:value`,
		"1 3:\n":              `f:1: value "" of index 3`,
		"1 3:inf\n":           `f:1: value "inf" of index 3`,
		"1 4294967297:1\n":    `f:1: index "4294967297"`,
		"1 1:1\n1 2:3:4 5:6 ": `f:2: value "3:4" of index 2`,
		"\x1f\x8b\x08\x00":    "f: gzip: ",
	} {
		if _, err := ReadLIBSVM("f", strings.NewReader(text), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestReadIDX(t *testing.T) {
	whole := "\x00\x00\x08\x02\x00\x00\x00\x02\x00\x00\x00\x03abcdef"
	want := IDX{Shape: []int{2, 3}, Data: []byte("abcdef")}
	for _, data := range [][]byte{[]byte(whole), gzipped(t, whole)} {
		if got, err := ReadIDX("f", bytes.NewReader(data)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	for n := range whole {
		if _, err := ReadIDX("f", strings.NewReader(whole[:n])); err == nil {
			t.Errorf("%d bytes of %d were read", n, len(whole))
		}
	}
	for text, want := range map[string]string{
		whole + "g":                            "f: bytes after its end",
		"1 2:3\n":                              "f: not an IDX file",
		"\x00\x00\x0d\x01\x00\x00\x00\x01\x00": "f: IDX values of type 0x0d",
		"\x00\x00\x08\x00":                     "f: an IDX file without dimensions",
		"\x00\x00\x08\x01\x00\x00\x00\x00":     "f: impossible IDX dimension 0",
		"\x00\x00\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00": "f: impossible IDX dimension 4294967295",
	} {
		if _, err := ReadIDX("f", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

const smallTable = "\ufeffage,town,income\n41,york,1.5\n,bath,-2\n7,NA,?\n8,\"bath\",1e3\n"

func TestReadTable(t *testing.T) {
	got, err := ReadTable("f.csv", strings.NewReader(smallTable), 0)
	if err != nil || got.Rows != 4 || len(got.Columns) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	nan := float32(math.NaN())
	for i, want := range []struct {
		TableColumn
		values []float32
	}{
		{TableColumn{"age", nil, 3}, []float32{41, nan, 7, 8}},
		{TableColumn{"town", []string{"bath", "york"}, 3}, []float32{1, 0, nan, 0}},
		{TableColumn{"income", nil, 3}, []float32{1.5, -2, nan, 1000}},
	} {
		same := slices.EqualFunc(valuesOf(got, i), want.values, func(a, b float32) bool { return a == b || a != a && b != b })
		if !reflect.DeepEqual(got.Columns[i], want.TableColumn) || !same {
			t.Errorf("column %d: %+v, want %+v", i, got.Columns[i], want)
		}
	}
	beyond, err := readTable("f.csv", strings.NewReader(smallTable), 0, 8)
	if err != nil {
		t.Fatal(err)
	}
	if beyond.close == nil {
		t.Error("9 cells are not in a file")
	}
	if fmt.Sprint(beyond.Index, beyond.Value, beyond.Start, beyond.Columns) != fmt.Sprint(got.Index, got.Value, got.Start, got.Columns) {
		t.Errorf("beyond memory: %+v; want %+v", beyond, got)
	}
	if err := beyond.Close(); err != nil {
		t.Error(err)
	}
}

// A table of many parts is the same as its rows.
func TestReadLongTable(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,b,c\n")
	const rows = 3 * partSize / 2
	for i := range rows {
		fmt.Fprintf(&text, "%d,,w%d\n", i, i%7)
	}
	got, err := ReadTable("f.csv", strings.NewReader(text.String()), 0)
	if err != nil || got.Rows != rows || len(got.Start) != rows+1 || len(got.Index) != 2*rows {
		t.Fatalf("%d rows, %d cells, %v", got.Rows, len(got.Index), err)
	}
	for i := range rows {
		if k := 2 * i; got.Start[i] != k || got.Index[k] != 0 || got.Value[k] != float32(i) || got.Index[k+1] != 2 || got.Value[k+1] != float32(i%7) {
			t.Fatalf("row %d: from %d, %v %v", i, got.Start[i], got.Index[k:k+2], got.Value[k:k+2])
		}
	}
}

// valuesOf returns the values of a column by row; NaN: nothing is there.
func valuesOf(table Table, column int) []float32 {
	values := make([]float32, table.Rows)
	for row := range values {
		values[row] = float32(math.NaN())
		for k := table.Start[row]; k < table.Start[row+1]; k++ {
			if int(table.Index[k]) == column {
				values[row] = table.Value[k]
			}
		}
	}
	return values
}

func TestReadTableErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "f: it is empty",
		"a,b\n":               "f: no rows in it",
		"a,a\n1,2\n":          `f:1: two columns are named "a"`,
		"a,b\n1,2\n1\n":       "f:3: 1 columns, the header has 2",
		"a,b\n1,2\nx,2\n":     `f:3: column 1 (a): "x" is not a number`,
		"a,b\n1,1e99\n":       `f:2: column 2 (b): "1e99" is not a finite number`,
		"a,b\n1,\"2\n":        "f:2: ",
		"a,b\n\"x\ny\",1,3\n": "f:2: 3 columns",
	} {
		if _, err := ReadTable("f", strings.NewReader(text), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	got, err := ReadTable("f", strings.NewReader("a,b\n1,2\nx,2\n3\n4,5\n"), 2)
	if err != nil || got.Rows != 2 || got.BadLines != 2 || !slices.Equal(valuesOf(got, 0), []float32{1, 4}) {
		t.Errorf("%+v, %v; want two rows and two bad lines", got, err)
	}
}

// TestTablesOfOtherForms: separators, line numbers, no header, missing cells and text, each as an independent reading has it.
func TestTablesOfOtherForms(t *testing.T) {
	var names, text strings.Builder
	names.WriteString("who,x,y\n")
	for i := range 60 {
		fmt.Fprintf(&names, "n%d,%d,a\n", i, i)
	}
	text.WriteString("a,b\n")
	for i := range maxWords + 1 {
		fmt.Fprintf(&text, "%s says so,1\n", strings.Repeat("x", 1+i))
	}
	for name, c := range map[string]struct {
		text    string
		options TableOptions
		want    string // names of the columns
		first   []float32
	}{
		"semicolons":       {"a;b;c\n1,5;x;2\n2,5;y;3\n", TableOptions{}, "a b c", []float32{1.5, 2.5}},
		"tabs":             {"a\tb\n1,500\tx, y\n2.5\tz\n", TableOptions{}, "a b", []float32{1500, 2.5}},
		"bars":             {"a|b\n1|2\n3|4\n", TableOptions{}, "a b", []float32{1, 3}},
		"blanks":           {"18.0  8 \"Ford\"\n15.0   6 \"Audi\"\n", TableOptions{}, "c1 c2 c3", []float32{18, 15}},
		"line numbers":     {",a,b\n0,7,x\n1,8,y\n", TableOptions{}, "a b", []float32{7, 8}},
		"no header":        {"5.1,3.5,red\n4.9,3,blue\n", TableOptions{}, "c1 c2 c3", []float32{5.1, 4.9}},
		"named columns":    {"5.1,3.5,red\n4.9,3,blue\n", TableOptions{Columns: []string{"a", "b", "c"}}, "a b c", []float32{5.1, 4.9}},
		"without target":   {"5.1,3.5\n4.9,3\n", TableOptions{Columns: []string{"a", "b", "c"}, Target: "c"}, "a b", []float32{5.1, 4.9}},
		"words, no header": {"p,x,x\ne,x,y\np,x,y\n", TableOptions{}, "c1 c2 c3", []float32{1, 0, 1}},
		"years":            {"a,2001,2002\n5,6,7\n", TableOptions{}, "a 2001 2002", []float32{5}},
		"ignored":          {"a,b,c\n1,2,3\n", TableOptions{Ignore: []string{"a"}}, "b c", []float32{2}},
		"missing":          {"a,b\nNaN,1\nNULL,1\n3,1\n", TableOptions{}, "a b", nil},
		"identifiers":      {names.String(), TableOptions{}, "x y", nil},
		"text":             {text.String(), TableOptions{}, "b", nil},
	} {
		got, err := c.options.Read("f", strings.NewReader(c.text), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var columns []string
		for _, c := range got.Columns {
			columns = append(columns, c.Name)
		}
		if strings.Join(columns, " ") != c.want || c.first != nil && !slices.Equal(valuesOf(got, 0), c.first) {
			t.Errorf("%s: columns %q, first %v; want %q, %v", name, columns, valuesOf(got, 0), c.want, c.first)
		}
	}
	got, err := ReadTable("f", strings.NewReader(text.String()), 0)
	if err != nil || !slices.Equal(got.Texts, []string{"a"}) {
		t.Errorf("columns of text %q, %v", got.Texts, err)
	}
}

func FuzzReadLIBSVM(f *testing.F) {
	f.Add([]byte("1 1:2 3:4\n"), 0)
	f.Add([]byte("-1 2:nan\n1"), 1)
	f.Fuzz(func(t *testing.T, data []byte, maxBad int) {
		s, err := ReadLIBSVM("fuzz", bytes.NewReader(data), maxBad)
		if err != nil {
			return
		}
		if len(s.Start) != len(s.Labels)+1 || s.Start[len(s.Labels)] != len(s.Index) || len(s.Index) != len(s.Value) {
			t.Fatalf("lists of different lengths: %+v", s)
		}
		for i := range s.Labels {
			for k := s.Start[i]; k < s.Start[i+1]; k++ {
				if int(s.Index[k]) >= s.Features || k > s.Start[i] && s.Index[k] <= s.Index[k-1] {
					t.Fatalf("index %d in vector %d of %+v", s.Index[k], i, s)
				}
			}
		}
	})
}

func FuzzReadIDX(f *testing.F) {
	f.Add([]byte("\x00\x00\x08\x01\x00\x00\x00\x02ab"))
	f.Fuzz(func(t *testing.T, data []byte) {
		array, err := ReadIDX("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		size := 1
		for _, n := range array.Shape {
			size *= n
		}
		if size != len(array.Data) {
			t.Fatalf("%d values for the shape %v", len(array.Data), array.Shape)
		}
	})
}

func FuzzReadTable(f *testing.F) {
	f.Add([]byte(smallTable), 0)
	f.Add([]byte("a,b\n1,\"x\"\"y\"\n"), 2)
	f.Fuzz(func(t *testing.T, data []byte, maxBad int) {
		table, err := ReadTable("fuzz", bytes.NewReader(data), maxBad)
		if err != nil {
			return
		}
		if len(table.Start) != table.Rows+1 || table.Start[table.Rows] != len(table.Index) || len(table.Index) != len(table.Value) {
			t.Fatalf("%d rows have %d starts; %d columns and %d values of cells", table.Rows, len(table.Start), len(table.Index), len(table.Value))
		}
		cells := make([]int, len(table.Columns))
		for k, i := range table.Index {
			c := table.Columns[i]
			cells[i]++
			if v := table.Value[k]; v != v || len(c.Words) > 0 && int(v) >= len(c.Words) {
				t.Fatalf("column %q has %v, and %d words", c.Name, v, len(c.Words))
			}
		}
		for i, c := range table.Columns {
			if cells[i] != c.Cells {
				t.Fatalf("column %q has %d cells of %d", c.Name, cells[i], c.Cells)
			}
		}
	})
}
