package wire

import (
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// securePair returns both ends of a TLS connection.
func securePair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	pool, own := certificates(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if conn, err = secure(t.Context(), conn, tls.Server, &tls.Config{Certificates: []tls.Certificate{own}}); err == nil {
			accepted <- conn
		}
	}()
	near, err = SecureDialer(nil, &tls.Config{RootCAs: pool})(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, ok := <-accepted
	if !ok {
		t.Fatal("no connection")
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// Data sent through TLS arrives unchanged, in pieces of any size, with blocking and nonblocking writes: more than the kernel buffers while
// nobody reads.
func TestSecuredWrites(t *testing.T) {
	near, far := securePair(t)
	random := rand.New(rand.NewPCG(1, 2))
	writer := newWriter(near)
	for _, sizes := range [][]int{
		{1}, {100, 8}, {inlineBytes}, {inlineBytes - 1, inlineBytes - 1, inlineBytes - 1}, {16 << 10}, {16<<10 + 1, 3},
		{24, 1 << 20, 5, 300, 70_000, 16}, {64, 24 << 20, 8},
	} {
		var pieces [][]byte
		for _, size := range sizes {
			piece := make([]byte, size)
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			pieces = append(pieces, piece)
		}
		want := bytes.Join(pieces, nil)
		for _, atOnce := range []bool{false, true} {
			written := make(chan error, 1)
			send := func() { _, err := writer.writeVector(append([][]byte{}, pieces...)); written <- err }
			if atOnce {
				n, err := writer.(nonblockingWriter).writeNow(append([][]byte{}, pieces...)) // nobody reads yet
				if err != nil || n != len(want) {
					t.Fatalf("%d: took %d of %d bytes, %v", sizes, n, len(want), err)
				}
				send = func() { written <- writer.(nonblockingWriter).settle() }
			}
			go send()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(newReader(far), got); err != nil {
				t.Fatal(err)
			}
			if err := <-written; err != nil || !bytes.Equal(got, want) {
				t.Fatalf("pieces of %d bytes, at once %v: not what was sent, or %v", sizes, atOnce, err)
			}
		}
	}
}
