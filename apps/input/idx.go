package input

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// IDX is an array of bytes of any number of dimensions, as the MNIST files hold images and labels
// (http://yann.lecun.com/exdb/mnist/, "the IDX file format").
type IDX struct {
	Shape []int
	Data  []byte // the last dimension varies fastest
}

// maxIDX bounds the size that a header may claim.
const maxIDX = 1 << 40

// ReadIDX reads a file of unsigned bytes in IDX format: two zero bytes, the type (8), the number of dimensions,
// each dimension as a big-endian 32-bit number, then the values.
func ReadIDX(name string, r io.Reader) (IDX, error) {
	plain, err := Plain(r)
	if err != nil {
		return IDX{}, fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	in := bufio.NewReader(plain)
	shape, size, err := idxHeader(in)
	if err == nil {
		var array IDX
		array.Shape = shape
		// The buffer grows as bytes arrive, so that a false header cannot exhaust memory.
		array.Data, err = io.ReadAll(io.LimitReader(in, size))
		if err == nil && int64(len(array.Data)) < size {
			err = fmt.Errorf("it is cut short: %d values of %d", len(array.Data), size)
		}
		if err == nil {
			if _, end := in.ReadByte(); end == nil {
				err = errors.New("bytes after its end")
			} else if end != io.EOF {
				err = end
			}
		}
		if err == nil {
			return array, nil
		}
	}
	return IDX{}, fmt.Errorf("%s: %w", name, err)
}

func idxHeader(in io.Reader) (shape []int, size int64, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil {
		return nil, 0, fmt.Errorf("IDX header: %w", err)
	}
	if magic[0] != 0 || magic[1] != 0 {
		return nil, 0, errors.New("not an IDX file: it does not start with two zero bytes")
	}
	if magic[2] != 8 {
		return nil, 0, fmt.Errorf("IDX values of type %#02x: only unsigned bytes (0x08) can be read", magic[2])
	}
	if magic[3] == 0 {
		return nil, 0, errors.New("an IDX file without dimensions")
	}
	size = 1
	for range magic[3] {
		var word [4]byte
		if _, err := io.ReadFull(in, word[:]); err != nil {
			return nil, 0, fmt.Errorf("IDX header: %w", err)
		}
		n := int64(binary.BigEndian.Uint32(word[:]))
		if n == 0 || size > maxIDX/n {
			return nil, 0, fmt.Errorf("impossible IDX dimension %d after %v", n, shape)
		}
		size *= n
		shape = append(shape, int(n))
	}
	return shape, size, nil
}
