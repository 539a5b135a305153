package sameuser

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 624 1 00000000e6d248d1 100 0 0 10 0
   1: 0100007F:8000 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 0 3 00000000e6d248d1
   2: 0100007F:8001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 77 1 00000000e6d248d1
   3: 0100007F:1F90 0100007F:8001 01 00000000:00000000 00:00000000 00000000  1000        0 78 1 00000000e6d248d1
   4: 0000000000000000FFFF00000100007F:8002 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 79 1 00000000e6d248d1
   5: 00000000000000000000000001000000:8003 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000  1003        0 80 1 00000000e6d248d1
   6: nonsense
`
	for _, c := range []struct {
		from, to, want string
	}{
		{"127.0.0.1:32769", "127.0.0.1:8080", "1001"},
		{"127.0.0.1:32770", "127.0.0.1:8080", "1002"},
		{"[::1]:32771", "[::1]:8080", "1003"},
		{"[::ffff:127.0.0.1]:32769", "127.0.0.1:8080", "1001"},
		{"127.0.0.1:32768", "127.0.0.1:8080", errNoSocket.Error()}, // closed: the kernel shows it as root's
		{"127.0.0.1:32769", "127.0.0.1:8081", errNoSocket.Error()},
	} {
		s, err := find(strings.NewReader(table), netip.MustParseAddrPort(c.from), netip.MustParseAddrPort(c.to))
		got := fmt.Sprint(s.uid)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}
