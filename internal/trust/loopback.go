package trust

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/tierml/tierml/internal/sameuser"
)

// Plain prepares a listener for plaintext. It rejects an address that other hosts can reach, where everything must use TLS. The returned
// listener accepts only connections of the same user. Addresses other than TCP ones, such as pipes and Unix sockets, belong to this host.
func Plain(l net.Listener, log *slog.Logger) (net.Listener, error) {
	address := l.Addr()
	tcp, ok := address.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return sameuser.Listener(l, log), nil
	}
	return nil, fmt.Errorf("listening on %s without TLS is refused: other hosts can reach it; write security: tls, or "+
		"listen on the loopback interface", address)
}
