package decompress

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// mostParquet bounds the size of a Parquet file: its directory is at its end, so that it is read completely.
const mostParquet = 1 << 30

// parquetTable returns a Parquet file's rows as CSV, with the column names in the first line.
func parquetTable(r io.Reader) (table io.ReadCloser, err error) {
	defer damaged(&err)
	whole, err := io.ReadAll(io.LimitReader(r, mostParquet+1))
	if err != nil {
		return nil, err
	}
	if len(whole) > mostParquet {
		return nil, errors.New("it is a Parquet file of more than 1 GiB: write it as CSV, or as several files")
	}
	file, err := parquet.OpenFile(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		return nil, fmt.Errorf("reading Parquet: %w: the file is damaged or not whole; fetch it again", err)
	}
	t := &parquetReader{groups: file.RowGroups()}
	t.out = csv.NewWriter(&t.text)
	var names []string
	for _, path := range file.Schema().Columns() {
		leaf, _ := file.Schema().Lookup(path...)
		if leaf.MaxRepetitionLevel > 0 || len(path) > 1 {
			return nil, fmt.Errorf("reading Parquet: column %q holds lists or records: write a table of plain values", path[0])
		}
		names = append(names, path[0])
		t.show = append(t.show, shown(leaf.Node.Type()))
	}
	if err := t.out.Write(names); err != nil {
		return nil, err
	}
	t.row = make([]string, len(names))
	return t, nil
}

// damaged turns a panic into an error: the library checks less than untrusted files need.
func damaged(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("reading Parquet: the file is damaged: %v", fault)
	}
}

// parquetReader is the text of the rows that are read next.
type parquetReader struct {
	groups []parquet.RowGroup
	rows   parquet.Rows
	show   []func(parquet.Value) string
	row    []string
	out    *csv.Writer
	text   bytes.Buffer
	buffer [256]parquet.Row
}

// Read implements io.Reader.
func (t *parquetReader) Read(p []byte) (int, error) {
	t.out.Flush()
	for t.text.Len() == 0 {
		if err := t.more(); err != nil {
			return 0, err
		}
		t.out.Flush()
	}
	return t.text.Read(p)
}

func (t *parquetReader) more() (err error) {
	defer damaged(&err)
	if t.rows == nil {
		if len(t.groups) == 0 {
			return io.EOF
		}
		t.rows, t.groups = t.groups[0].Rows(), t.groups[1:]
	}
	n, err := t.rows.ReadRows(t.buffer[:])
	for _, row := range t.buffer[:n] {
		for _, v := range row {
			if t.row[v.Column()] = ""; !v.IsNull() {
				t.row[v.Column()] = t.show[v.Column()](v)
			}
		}
		if err := t.out.Write(t.row); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		err = t.rows.Close()
		t.rows = nil
	}
	if err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	return nil
}

// Close implements io.Closer.
func (t *parquetReader) Close() error {
	if t.rows == nil {
		return nil
	}
	return t.rows.Close()
}

// shown formats a column's values: times by the clock, decimals with their point.
func shown(of parquet.Type) func(parquet.Value) string {
	plain := func(v parquet.Value) string {
		switch v.Kind() {
		case parquet.Float:
			return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32)
		case parquet.Double:
			return strconv.FormatFloat(v.Double(), 'g', -1, 64)
		case parquet.Int96:
			return v.Int96().String()
		case parquet.ByteArray, parquet.FixedLenByteArray:
			if text := v.ByteArray(); utf8.Valid(text) {
				return string(text)
			}
			return base64.StdEncoding.EncodeToString(v.ByteArray())
		}
		return v.String()
	}
	logical := of.LogicalType()
	if logical == nil {
		return plain
	}
	switch logical := logical.Value.(type) {
	case *format.DateType:
		return func(v parquet.Value) string { return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly) }
	case *format.TimestampType:
		if logical.Unit.Value == nil {
			break
		}
		unit := int64(logical.Unit.Value.Duration())
		return func(v parquet.Value) string {
			perSecond := int64(time.Second) / unit
			at := time.Unix(v.Int64()/perSecond, v.Int64()%perSecond*unit)
			return at.UTC().Format("2006-01-02T15:04:05.999999999Z")
		}
	case *format.DecimalType:
		scale := int(logical.Scale)
		switch of.Kind() {
		case parquet.Int32:
			return func(v parquet.Value) string { return point(int64(v.Int32()), scale) }
		case parquet.Int64:
			return func(v parquet.Value) string { return point(v.Int64(), scale) }
		}
		return func(v parquet.Value) string { // two's complement, big-endian
			n := new(big.Int).SetBytes(v.ByteArray())
			if bits := 8 * len(v.ByteArray()); bits > 0 && n.Bit(bits-1) == 1 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
			}
			return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale)
		}
	}
	return plain
}

// point writes a whole number with scale of its digits behind a point.
func point(n int64, scale int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	digits := fmt.Sprintf("%0*d", scale+1, n)
	if scale == 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
