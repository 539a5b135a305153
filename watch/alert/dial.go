package alert

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// metadataV6 is the IPv6 address of EC2's metadata service.
var metadataV6 = netip.MustParseAddr("fd00:ec2::254")

// transport dials webhooks, except addresses that cannot be webhooks: clouds' metadata services, which give credentials, answer at
// link-local addresses. It checks the address itself, as any name may resolve to one.
func transport(judge func(network, address string, _ syscall.RawConn) error) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: judge}).DialContext
	return t
}

// carrierNAT is shared address space (RFC 6598), which is not public.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

func onlyPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	if ip := at.Addr().Unmap().WithZone(""); !ip.IsGlobalUnicast() || ip.IsPrivate() || carrierNAT.Contains(ip) {
		return fmt.Errorf("%s is an address of this host or its network: alerts of jobs of others do not go there, unless the job server is started with --allow and the webhook's address", at.Addr())
	}
	return nil
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
