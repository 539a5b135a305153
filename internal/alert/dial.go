package alert

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// metadataV6 is where EC2's metadata service answers by IPv6.
var metadataV6 = netip.MustParseAddr("fd00:ec2::254")

// transport dials webhooks, but for what no webhook is: the metadata services of clouds, which give credentials, answer at
// link-local addresses. It looks at the address itself, as any name may lead there.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: notMetadata}).DialContext
	return t
}

func notMetadata(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	if ip := at.Addr().Unmap().WithZone(""); ip.IsLinkLocalUnicast() || ip == metadataV6 {
		return fmt.Errorf("%s is a metadata service's address, and no webhook's", at.Addr())
	}
	return nil
}
