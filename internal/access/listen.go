package access

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
)

// Endpoint is an address to serve at and its protection.
type Endpoint struct {
	Address   string // host:port
	Cert, Key string // files in PEM; empty = no TLS
	Plaintext bool   // even beyond loopback: a proxy in front of it speaks TLS
}

// Check returns why an endpoint must not be opened; what names the thing served. It checks the settings only, not the network or
// files.
func (d Endpoint) Check(what string) error {
	host, port, err := net.SplitHostPort(d.Address)
	if err != nil {
		return fmt.Errorf("--listen %q: %w; write it as localhost:7070", d.Address, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("--listen %s: %q is not a port; write a number from 1 to 65535, or 0 for any free one", d.Address, port)
	}
	if (d.Cert == "") != (d.Key == "") {
		return errors.New("--tls-cert and --tls-key belong together: name both files, or none")
	}
	if d.Cert == "" && !loopback(host) && !d.Plaintext {
		return fmt.Errorf("--listen %s: other hosts could read what %s says, and its token; write localhost:%s and reach it by "+
			"`ssh -L %s:localhost:%s HOST`, or give it TLS with --tls-cert and --tls-key, or add --plaintext when something in front of it "+
			"speaks TLS", d.Address, what, port, port, port)
	}
	return nil
}

// Private reports whether only this host can reach the endpoint.
func (d Endpoint) Private() bool { return loopback(hostOf(d.Address)) }

// TLS reports whether the endpoint speaks it.
func (d Endpoint) TLS() bool { return d.Cert != "" }

// Taken adds advice to the error that --listen is in use; it returns any other error unchanged.
func Taken(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w; end the program that has it, or choose another port with --listen; 0 takes any free one", err)
}

// Listen opens the endpoint.
func (d Endpoint) Listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", d.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, Taken(err)
	case err != nil:
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	if !d.TLS() {
		return listener, nil
	}
	certificate, err := tls.LoadX509KeyPair(d.Cert, d.Key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading --tls-cert and --tls-key: %w", err), listener.Close())
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"}}), nil
}

// CheckURL returns why a token must not be sent to an address.
func CheckURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not a job server's address; write it as http://localhost:7071", address)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("a job server's address has no user, no question mark and no hash: the token comes from its file")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("%s: the token would travel in the clear; write https://, or open a tunnel with `ssh -N -L 7071:localhost:7071 %s` "+
			"and write http://localhost:7071", u.Host, u.Hostname())
	}
	return u, nil
}
