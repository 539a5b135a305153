package trust

import (
	"fmt"
	"net"
)

// Plain refuses an address that others than this host can reach: there everything is in TLS. Addresses that are no TCP
// ones, such as pipes and Unix sockets, are of this host.
func Plain(address net.Addr) error {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listening on %s without TLS is refused: others than this host can reach it; write security: tls, or "+
		"listen on the loopback interface", address)
}
