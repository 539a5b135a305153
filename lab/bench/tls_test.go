package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkPingPong is what crypto/tls itself costs: 1 MiB there and 1 MiB back between two ends that do nothing else, over
// the same connection with and without it.
func BenchmarkPingPong(b *testing.B) {
	path := filepath.Join(b.TempDir(), "certificate.pem")
	if err := writeCertificate(path); err != nil {
		b.Fatal(err)
	}
	config, err := mutualTLS(path)
	if err != nil {
		b.Fatal(err)
	}
	config.ServerName = "127.0.0.1"
	config.DynamicRecordSizingDisabled = true
	b.Run("plain", func(b *testing.B) { pingPong(b, nil) })
	b.Run("TLS", func(b *testing.B) { pingPong(b, config) })
}

func pingPong(b *testing.B, config *tls.Config) {
	const size = 1 << 20
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	_ = listener.Close()
	for _, conn := range []net.Conn{near, far} {
		if err := unpaced(conn); err != nil {
			b.Fatal(err)
		}
	}
	if config != nil {
		near, far = tls.Client(near, config), tls.Server(far, config)
	}
	echoed := make(chan error, 1)
	go func() {
		echoed <- func() error {
			for buffer := make([]byte, size); ; {
				if _, err := io.ReadFull(far, buffer); err != nil {
					return err
				}
				if _, err := far.Write(buffer); err != nil {
					return err
				}
			}
		}()
	}()
	ping, pong := make([]byte, size), make([]byte, size)
	b.SetBytes(2 * size)
	before := usedByUs(b)
	for b.Loop() {
		if _, err := near.Write(ping); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, pong); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(usedByUs(b)-before)/float64(b.N), "processor-ns/op")
	_ = near.Close()
	<-echoed
	_ = far.Close()
}

// unpaced sets what ours and the yardstick set within a host.
func unpaced(conn net.Conn) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	}); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", failed)
}

// usedByUs returns what this process has used so far, in nanoseconds.
func usedByUs(b *testing.B) int64 {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
