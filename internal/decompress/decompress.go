// Package decompress returns the plain bytes of a stream that may be compressed, and of a Parquet file its table as CSV; text in UTF-16
// becomes UTF-8. It uses the first bytes: people's files have wrong names. It knows nothing about streams' sources and contents.
package decompress

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding/unicode"

	"github.com/tierml/tierml/internal/pattern"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzipMagic = []byte("BZh")
	zipMagic  = []byte("PK\x03\x04")
	xzMagic   = []byte("\xfd7zXZ\x00")
	parquet1  = []byte("PAR1")
)

// most is the maximum memory of the decoder, whatever the header requests.
const most = 256 << 20

// Bounds of a stream's unpacked size: a total number of bytes, and beyond the first ones a multiple of its packed size. Prices and training
// data compress to about a tenth. Recordings of availability compress to a three-hundredth, but are far smaller than the free memory.
const (
	mostPlain = 64 << 30
	free      = 64 << 20 // bytes for which the ratio does not matter
	ratio     = 100
	// Each line costs its reader more memory than its bytes: 2 bytes of labels take 50. Lines of real data compress to about ten bytes, and
	// differ by at least some bits.
	freeLines    = 2 << 20
	linesPerByte = 2
)

// setting is the environment variable that replaces these bounds with one, in MiB.
const setting = "TIERML_MAX_UNPACKED"

// ErrTooLarge ends a stream that exceeds the bounds.
var ErrTooLarge = errors.New("unpacks to more than expected")

// Reader returns the plain bytes of a stream that may be compressed by gzip, Zstandard, bzip2 or xz, the single file of a zip archive, or a
// Parquet file as CSV, up to bounds. Closing it leaves the stream open.
func Reader(r io.Reader) (io.ReadCloser, error) {
	packed := &counter{from: r}
	plain, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	if _, same := plain.(asIs); same {
		return plain, nil
	}
	b := &bounded{ReadCloser: plain, packed: packed, most: mostPlain, ratio: ratio}
	if text := os.Getenv(setting); text != "" {
		mib, err := strconv.ParseInt(text, 10, 32)
		if err != nil || mib <= 0 {
			return nil, fmt.Errorf("%s=%s: write a number of MiB", setting, text)
		}
		b.most, b.ratio = mib<<20, 0
	}
	return b, nil
}

// Lines returns a text with newlines where its lines end with carriage returns alone, as old spreadsheets write them. Anything else is unchanged.
func Lines(in *bufio.Reader) *bufio.Reader {
	first, _ := in.Peek(in.Size()) // an error comes again
	if bytes.IndexByte(first, '\r') < 0 || bytes.ContainsAny(first, "\n\x00") {
		return in
	}
	return bufio.NewReader(carriageReturns{in})
}

type carriageReturns struct{ in io.Reader }

func (c carriageReturns) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for i, b := range p[:n] {
		if b == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

// counter counts what is read.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// asIs is a stream that is not compressed.
type asIs struct{ io.Reader }

func (asIs) Close() error { return nil }

// bounded is a stream that ends when it becomes too large.
type bounded struct {
	io.ReadCloser
	packed *counter
	plain  int64
	lines  int64
	most   int64
	ratio  int64 // 0: unlimited, also for lines
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.plain += int64(n)
	b.lines += int64(bytes.Count(p[:n], []byte("\n")))
	if b.plain > b.most || b.ratio > 0 && (b.plain > free+b.ratio*b.packed.n || b.lines > freeLines+linesPerByte*b.packed.n) {
		return 0, fmt.Errorf("%w: %d KiB became %d MiB in %d lines so far; if the file is right, set %s to its unpacked size in MiB",
			ErrTooLarge, b.packed.n>>10, b.plain>>20, b.lines, setting)
	}
	return n, cause(err)
}

// cause explains a decoder's error.
func cause(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the compressed file is cut short: %w", err)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrCRCMismatch):
		return fmt.Errorf("the compressed file is damaged, or something else follows it: %w", err)
	}
	return err
}

// once refuses a file that is compressed twice.
func once(plain io.ReadCloser) (io.ReadCloser, error) {
	buffered := bufio.NewReader(plain)
	if magic, _ := buffered.Peek(len(zstdMagic)); bytes.HasPrefix(magic, gzipMagic) || bytes.HasPrefix(magic, zstdMagic) {
		return nil, errors.Join(errors.New("it is compressed twice: unpack it once"), plain.Close())
	}
	text, err := asUTF8(buffered)
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{text, plain}, nil
}

// asUTF8 removes a text's byte-order mark, and converts UTF-16, as spreadsheets and databases save it, to UTF-8. It refuses files of
// other kinds.
func asUTF8(r *bufio.Reader) (io.Reader, error) {
	head, _ := r.Peek(4096) // a shorter file has what it has
	for _, f := range foreign {
		if f.start().Match(head) {
			return nil, errors.New(f.what)
		}
	}
	switch mark := head[:min(4, len(head))]; {
	case bytes.HasPrefix(mark, []byte("\ufeff")):
		_, _ = r.Discard(len("\ufeff"))
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Reader(r), nil
	case len(mark) == 4 && mark[0] != 0 && mark[1] == 0 && mark[2] != 0 && mark[3] == 0:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewDecoder().Reader(r), nil
	case bytes.HasPrefix(mark, []byte{0}): // pictures
		return r, nil
	}
	return dosText{r}, nil
}

// dosText drops the Ctrl-Z at a text's end, which DOS wrote.
type dosText struct{ in *bufio.Reader }

func (d dosText) Read(p []byte) (int, error) {
	n, err := d.in.Read(p)
	if n > 0 && p[n-1] == 0x1a {
		if _, end := d.in.Peek(1); errors.Is(end, io.EOF) {
			return n - 1, io.EOF
		}
	}
	return n, err
}

func unpack(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", cause(err))
		}
		return once(z)
	case bytes.HasPrefix(magic, zstdMagic):
		// One goroutine less to own: with concurrency 1 the decoder works in the caller's.
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(most))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", cause(err))
		}
		return once(z.IOReadCloser())
	}
	switch {
	case bytes.HasPrefix(magic, bzipMagic):
		return once(io.NopCloser(bzip2.NewReader(buffered)))
	case bytes.HasPrefix(magic, zipMagic):
		return onlyFile(buffered)
	case bytes.HasPrefix(magic, parquet1):
		return parquetTable(buffered)
	}
	magic, _ = buffered.Peek(32) // a shorter file is complete
	if bytes.HasPrefix(magic, xzMagic) {
		z, err := xz.ReaderConfig{DictCap: mostXZ}.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("xz: %w", err)
		}
		return once(io.NopCloser(z))
	}
	text, err := asUTF8(buffered)
	return asIs{text}, err
}

// mostXZ is the dictionary that a stream of xz may ask for.
const mostXZ = 128 << 20

// mostZip bounds the size of a zip archive: its directory is at its end, so that it is read completely.
const mostZip = 1 << 30

// onlyFile opens the single file of a zip archive.
func onlyFile(r io.Reader) (io.ReadCloser, error) {
	whole, err := io.ReadAll(io.LimitReader(r, mostZip+1))
	if err != nil {
		return nil, err
	}
	if len(whole) > mostZip {
		return nil, errors.New("it is a zip archive of more than 1 GiB: unpack it")
	}
	archive, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		return nil, fmt.Errorf("%w: the file is damaged or not whole; fetch it again", err)
	}
	var files []*zip.File
	for _, f := range archive.File {
		if f.Mode().IsRegular() && !strings.HasPrefix(f.Name, "__MACOSX/") {
			files = append(files, f)
		}
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("it is a zip archive of %d files, as spreadsheets are too: unpack the one that is meant, or save the sheet as CSV", len(files))
	}
	plain, err := files[0].Open()
	if err != nil {
		return nil, fmt.Errorf("zip: %w", err)
	}
	return once(plain)
}

// foreign are the beginnings of unsupported files, and what to do instead.
var foreign = []struct {
	start func() *regexp.Regexp
	what  string
}{
	{pattern.Of(`(?im)^@relation\s`), "it is an ARFF file: save its rows as CSV, with the names in the first line"},
	{pattern.Of(`^%PDF`), "it is a PDF: write its table as CSV"},
	{pattern.Of(`^\x{fffd}NUMPY`), "it is a NumPy array: write it as CSV, with the names in the first line"},
	{pattern.Of(`^ARROW1`), "it is an Arrow (Feather) file: write its table as Parquet or CSV"},
	{pattern.Of(`^(Obj\x01|ORC\n?[^ -~\s])`), "it is an Avro or ORC file: write its table as Parquet or CSV"},
	{pattern.Of(`^\x5d\x00\x00`), "it is compressed by LZMA: unpack it, or compress it by xz"},
	{pattern.Of(`^(7z\x{fffd}\x{fffd}'|Rar!|(?s:.{257})ustar)`), "it is an archive: unpack the file that is meant"},
	{pattern.Of(`^\x{fffd}HDF`), "it is an HDF5 file: write its table as CSV"},
	{pattern.Of(`^\x{fffd}\x{fffd}\x11\x{871}`), "it is a spreadsheet: save the sheet as CSV"},
	{pattern.Of(`^SQLite format 3`), "it is an SQLite database: `sqlite3 -header -csv OLD 'SELECT * FROM table' >NEW` writes a table as CSV"},
	{pattern.Of(`^\x{fffd}[\x02-\x05][^ -~]`), "it is a pickle of Python: write its table as CSV or Parquet"},
	{pattern.Of(`^(RD[AX][23]\n|[XB]\n\x00)`), "it is data of R: write.csv(x, NEW, row.names = FALSE) writes a table as CSV"},
	{pattern.Of(`^\s*(%[^\n]*\n\s*)*\\(begin|documentclass)\b`), "it is LaTeX: write its table as CSV"},
	{pattern.Of(`^-?[\d.]+ [^|\n]*\|\w*([ \t]+[^\s|:]+(:-?[\d.]+)?)*[ \t]+[A-Za-z_][^\s|:]*:-?[\d.]+[^|\n]*\n`), "it is data of Vowpal Wabbit: write it as CSV with a column for each feature, or as LIBSVM with numbers for their names"},
	{pattern.Of(`(?i)^\s*<(!doctype|html|table)`), "it is a web page: the download failed, or the address was that of a page about the file; write its table as CSV"},
	{pattern.Of(`^version https://git-lfs`), "it is a pointer to a file in Git LFS: fetch that with `git lfs pull`"},
}
