package input

import (
	"bufio"
	"errors"
	"io"

	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/internal/pattern"
)

// look is the length of text needed to recognise its format.
const look = 64 << 10

// Plain returns the text of a data file: unpacked, JSON objects as CSV, and with newlines where lines end with carriage returns alone, as
// old spreadsheets write them.
func Plain(r io.Reader) (io.ReadCloser, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(plain, look)
	first, err := in.Peek(look)
	if err != nil && !errors.Is(err, io.EOF) && len(first) == 0 {
		return nil, errors.Join(err, plain.Close())
	}
	switch {
	case drawn().Match(first):
		return nil, errors.Join(errDrawn, plain.Close())
	case jsonForm().Match(first):
		table, err := readObjects(in)
		if err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		return opened{table, plain}, nil
	}
	return opened{decompress.Lines(in), plain}, nil
}

// drawn is the beginning of a table with a line of dashes below its header, or around it.
var drawn = pattern.Of(`^\s*(?:[^\n]*\|[^\n]*\n)?[ \t]*(?:[|+][ \t]*:?--|:?-{2,}:?[ \t]*[|+])[-+|: \t]*\r?\n`)

var errDrawn = errors.New("it is a table drawn with bars and dashes, as Markdown and databases show them: `sed -e '/^[-+|: ]*$/d' -e '/^([0-9]* rows*)/d' -e 's/^ *| *//' -e 's/ *| *$//' OLD >NEW` leaves bars between cells, which are read")

// opened is a text and what must be closed after it.
type opened struct {
	io.Reader
	io.Closer
}
