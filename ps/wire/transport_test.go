package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"

	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// serveOn serves echo on a listener until the test ends.
func serveOn(t *testing.T, listener net.Listener, config *tls.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s := &Server{Job: 1, Handler: echo{}, Log: discard, Traffic: new(Traffic), TLS: config}
	done.Go(func() {
		if err := s.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// askOnce reads many rows, so that the answer takes several records and pieces.
func askOnce(t *testing.T, links *Links, address string) error {
	t.Helper()
	link, err := links.To(t.Context(), address)
	if err != nil {
		return err
	}
	keys := make([]ps.Key, 100_000)
	for i := range keys {
		keys[i].Row = ps.RowID(i)
	}
	rows, err := Ask[*Rows](t.Context(), link, 1, &Read{Groups: []KeyGroup{{0, len(keys)}}, Keys: keys})
	if err != nil {
		return err
	}
	defer rows.Release()
	for i, x := range rows.Values {
		if x != float32(i) {
			t.Fatalf("value %d is %g", i, x)
		}
	}
	return nil
}

func TestCallersOfThisHostUseAUnixSocket(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	local, err := ListenLocal(1, tcp.Addr())
	if err != nil {
		t.Skipf("%v: run it on Linux", err)
	}
	serveOn(t, tcp, nil)
	serveOn(t, local, nil)
	conn, err := DialLocal(1)(t.Context(), tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if conn.RemoteAddr().Network() != "unix" {
		t.Errorf("dialled %s", conn.RemoteAddr().Network())
	}
	_ = conn.Close()
	links := &Links{Job: 1}
	defer links.Close()
	if err := askOnce(t, links, tcp.Addr().String()); err != nil {
		t.Error(err)
	}
	if conn, err = DialLocal(2)(t.Context(), tcp.Addr().String()); err != nil { // no local listener for this job
		t.Fatal(err)
	}
	if conn.RemoteAddr().Network() != "tcp" {
		t.Errorf("dialled %s", conn.RemoteAddr().Network())
	}
	_ = conn.Close()
}

// certificates returns a CA and a certificate that it signed for 127.0.0.1.
func certificates(t *testing.T) (*x509.CertPool, tls.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestMutualTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testMutualTLS(t, listener)
}

// Slots of a job on one host run as users of their own.
func TestMutualTLSAcrossUsers(t *testing.T) { testMutualTLS(t, sameusertest.Listen(t, "127.0.0.1:0")) }

func testMutualTLS(t *testing.T, listener net.Listener) {
	pool, own := certificates(t)
	serveOn(t, listener, &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	_, stranger := certificates(t)
	for name, c := range map[string]struct {
		dial Dialer
		ok   bool
	}{
		"member":         {SecureDialer(nil, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}), true},
		"stranger":       {SecureDialer(nil, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{stranger}}), false},
		"no certificate": {SecureDialer(nil, &tls.Config{RootCAs: pool}), false},
		"plain":          {DialTCP, false},
	} {
		t.Run(name, func(t *testing.T) {
			links := &Links{Job: 1, Dial: c.dial}
			defer links.Close()
			if err := askOnce(t, links, listener.Addr().String()); (err == nil) != c.ok {
				t.Errorf("ends with %v", err)
			}
		})
	}
}
