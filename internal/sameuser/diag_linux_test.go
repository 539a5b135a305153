package sameuser

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
)

// The direct query and the tables return the same user, for both families, and none for a socket that does not exist.
func TestBothWaysAgree(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("no %s on this host: %v", address, err)
			continue
		}
		defer l.Close()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		from, to := client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort()
		byDiag, err := ownerByDiag(from, to)
		if errors.Is(err, errNoDiag) {
			t.Skip("this kernel has no sock_diag: modprobe tcp_diag")
		}
		byTable, tableErr := ownerByTable(from, to)
		if err != nil || tableErr != nil || byDiag.uid != os.Geteuid() || byTable != byDiag {
			t.Errorf("%s: %+v (%v) by sock_diag, %+v (%v) by the tables, want user %d", address, byDiag, err, byTable, tableErr, os.Geteuid())
		}
		nobody := netip.AddrPortFrom(from.Addr(), 1)
		if s, err := ownerByDiag(nobody, to); !errors.Is(err, errNoSocket) {
			t.Errorf("%s from port 1: %+v, %v", address, s, err)
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	from, to := client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort()
	for name, find := range map[string]func(_, _ netip.AddrPort) (socket, error){"diag": ownerByDiag, "table": ownerByTable} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := find(from, to); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
