package lda

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/tierml/tierml/ps"
)

// A split file contains everything that one split needs, all numbers 32 bits, little endian:
//
//	magic "TMLlda\r\n" (a file changed by a text-mode copy is noticed at once), version 1, split number
//	V, words of the whole collection
//	N, documents to train on; H, documents held out
//	B, bytes of the vocabulary, 0 if it is not in this file
//	N and then H documents: number, E entries, then E times word and count; words ascending
//	the vocabulary: V words, a line feed after each
//	CRC-32C of all bytes before
const (
	splitMagic   = "TMLlda\r\n"
	splitVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSplit says that a split file cannot be used.
var ErrSplit = errors.New("damaged split file: prepare the data again")

// splitData is the contents of a split file.
type splitData struct {
	id         ps.Split
	words      int
	train      []text
	test       []text
	vocabulary []string
}

// text is one document.
type text struct {
	id     uint32 // its number in the input
	words  []uint32
	counts []uint32
}

func (t text) tokens() (n int64) {
	for _, c := range t.counts {
		n += int64(c)
	}
	return n
}

func (s *splitData) write(w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	var vocabulary string
	if len(s.vocabulary) > 0 {
		vocabulary = strings.Join(s.vocabulary, "\n") + "\n"
	}
	if len(vocabulary) > math.MaxInt32 {
		return fmt.Errorf("a vocabulary of %d bytes does not fit the format", len(vocabulary))
	}
	var number [4]byte
	put := func(n uint32) { // bufio keeps the first error until Flush
		binary.LittleEndian.PutUint32(number[:], n)
		out.Write(number[:])
	}
	out.WriteString(splitMagic)
	for _, n := range []int{splitVersion, int(s.id), s.words, len(s.train), len(s.test), len(vocabulary)} {
		put(uint32(n))
	}
	for _, documents := range [][]text{s.train, s.test} {
		for _, d := range documents {
			put(d.id)
			put(uint32(len(d.words)))
			for i := range d.words {
				put(d.words[i])
				put(d.counts[i])
			}
		}
	}
	out.WriteString(vocabulary)
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// readSplit reads and checks a split file.
func readSplit(r io.Reader, want ps.Split) (*splitData, error) {
	f := &splitReader{in: bufio.NewReaderSize(r, 1<<16)}
	s, err := f.read(want)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it is cut short", ErrSplit)
	}
	if err != nil {
		return nil, fmt.Errorf("split %d: %w", want, err)
	}
	return s, nil
}

// splitReader sums up what it reads. Lists grow as their bytes arrive, so that a wrong count cannot request more memory than the file has
// bytes.
type splitReader struct {
	in     *bufio.Reader
	sum    uint32
	buffer [8]byte
}

func (f *splitReader) bytes(n int) ([]byte, error) {
	if _, err := io.ReadFull(f.in, f.buffer[:n]); err != nil {
		return nil, err
	}
	f.sum = crc32.Update(f.sum, castagnoli, f.buffer[:n])
	return f.buffer[:n], nil
}

func (f *splitReader) pair() (a, b uint32, err error) {
	both, err := f.bytes(8)
	if err != nil {
		return 0, 0, err
	}
	return binary.LittleEndian.Uint32(both), binary.LittleEndian.Uint32(both[4:]), nil
}

func (f *splitReader) read(want ps.Split) (*splitData, error) {
	magic, err := f.bytes(len(splitMagic))
	if err != nil {
		return nil, err
	}
	if string(magic) != splitMagic {
		return nil, fmt.Errorf("%w: it is not a split file of a topic model", ErrSplit)
	}
	var header [6]uint32
	for i := 0; i < len(header); i += 2 {
		if header[i], header[i+1], err = f.pair(); err != nil {
			return nil, err
		}
	}
	if header[0] != splitVersion {
		return nil, fmt.Errorf("split file of version %d, this program reads version %d: prepare the data again",
			header[0], splitVersion)
	}
	if ps.Split(header[1]) != want {
		return nil, fmt.Errorf("%w: it holds split %d", ErrSplit, header[1])
	}
	s := &splitData{id: want, words: int(header[2])}
	for i, list := range []*[]text{&s.train, &s.test} {
		if *list, err = f.documents(header[3+i], header[2]); err != nil {
			return nil, err
		}
	}
	if s.vocabulary, err = f.vocabulary(int64(header[5]), s.words); err != nil {
		return nil, err
	}
	return s, f.end()
}

// documents reads and checks n documents: nothing that follows can index out of range, whatever wrote the file.
func (f *splitReader) documents(n, words uint32) (list []text, err error) {
	for range n {
		id, entries, err := f.pair()
		if err != nil {
			return nil, err
		}
		d := text{id: id}
		var total int64
		for i := range int(entries) {
			word, count, err := f.pair()
			if err != nil {
				return nil, err
			}
			if word >= words || i > 0 && word <= d.words[i-1] {
				return nil, fmt.Errorf("%w: word %d of %d in document %d, or out of order", ErrSplit, word, words, id)
			}
			if total += int64(count); count == 0 || total > maxTokens {
				return nil, fmt.Errorf("%w: document %d has %d tokens", ErrSplit, id, total)
			}
			d.words, d.counts = append(d.words, word), append(d.counts, count)
		}
		if total == 0 {
			return nil, fmt.Errorf("%w: document %d is empty", ErrSplit, id)
		}
		list = append(list, d)
	}
	return list, nil
}

func (f *splitReader) vocabulary(size int64, words int) ([]string, error) {
	if size == 0 {
		return nil, nil
	}
	var all strings.Builder
	n, err := io.Copy(&all, io.LimitReader(f.in, size))
	if err != nil {
		return nil, err
	}
	if n < size {
		return nil, io.ErrUnexpectedEOF
	}
	f.sum = crc32.Update(f.sum, castagnoli, []byte(all.String()))
	list := strings.Split(strings.TrimSuffix(all.String(), "\n"), "\n")
	if len(list) != words {
		return nil, fmt.Errorf("%w: %d words in its vocabulary and not %d", ErrSplit, len(list), words)
	}
	return list, nil
}

func (f *splitReader) end() error {
	sum := f.sum
	stored, err := f.bytes(4)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(stored) != sum {
		return fmt.Errorf("%w: its checksum does not match", ErrSplit)
	}
	if _, err := f.in.ReadByte(); err == nil {
		return fmt.Errorf("%w: bytes after its end", ErrSplit)
	} else if err != io.EOF {
		return err
	}
	return nil
}
