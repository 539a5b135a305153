package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/tierml/tierml/ps"
)

// verifiedTLS are the credentials of connections whose handshake the listener has done.
type verifiedTLS struct {
	credentials.TransportCredentials
}

func (verifiedTLS) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	over, ok := conn.(*tls.Conn)
	if !ok || !over.ConnectionState().HandshakeComplete {
		return nil, nil, errors.New("link: the listener gave a connection without TLS")
	}
	return over, credentials.TLSInfo{State: over.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (s verifiedTLS) Clone() credentials.TransportCredentials { return s }

// named requires that the certificate of a stream's other end is that of the machine it claims to be.
func named(ctx context.Context, machine ps.ServerID) error {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return errors.New("the connection shows no certificate")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return errors.New("the connection shows no certificate")
	}
	if name := info.State.PeerCertificates[0].Subject.CommonName; name != string(machine) {
		return fmt.Errorf("%s says that it is %s", name, machine)
	}
	return nil
}
