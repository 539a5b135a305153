package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Credential is a process's private key with its present certificate. New connections use the newer one; existing ones are not affected
// when a certificate expires.
type Credential struct {
	key       *ecdsa.PrivateKey
	authority *x509.Certificate
	pool      *x509.CertPool
	now       func() time.Time
	sign      func(crypto.PublicKey) ([]byte, error) // if the authority is in this process; nil = Renew requests it

	mu   sync.Mutex
	leaf *x509.Certificate // nil: none yet
	got  time.Time         // when, by this process's clock: the signer's may differ

	grant   []byte // what was issued with it; nil = nothing
	granted time.Time
	renew   time.Duration // when to request another, counted from granted
}

// Granted returns what the controller gave with the certificate; nil = nothing.
func (c *Credential) Granted() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grant
}

// Credential returns a credential for the authority's own process in a role. It renews itself.
func (a *Authority) Credential(role Role, name string) (*Credential, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	c := &Credential{key: key, authority: a.certificate, pool: a.pool(), now: a.now,
		sign: func(k crypto.PublicKey) ([]byte, error) { return a.issue(role, name, k) }}
	_, err = c.present()
	return c, err
}

// present returns the certificate to show now.
func (c *Credential) present() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sign != nil && (c.leaf == nil || !c.now().Before(c.renewAt())) {
		der, err := c.sign(c.key.Public())
		if err != nil {
			return nil, fmt.Errorf("signing an own certificate: %w", err)
		}
		if c.leaf, err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("signing an own certificate: %w", err)
		}
		c.got = c.now()
	}
	if c.leaf == nil {
		return nil, errors.New("this process has no certificate yet")
	}
	// The authority's certificate is included: a joining machine compares it with its user data.
	return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw, c.authority.Raw}, PrivateKey: c.key, Leaf: c.leaf}, nil
}

// renewAt returns when to renew the certificate: after half its lifetime, or that of its grant. The caller holds mu.
func (c *Credential) renewAt() time.Time {
	at := c.got.Add(c.ends().Sub(c.got.Add(skew)) / 2)
	if grant := c.granted.Add(c.renew); c.renew > 0 && grant.Before(at) {
		return grant
	}
	return at
}

// ends returns when the certificate's signer considers it expired. The caller holds mu.
func (c *Credential) ends() time.Time { return c.got.Add(c.leaf.NotAfter.Sub(c.leaf.NotBefore) - skew) }

func (c *Credential) take(leaf *x509.Certificate, answer joinAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaf, c.got = leaf, c.now()
	if answer.Grant != nil {
		c.grant, c.granted, c.renew = answer.Grant, c.got, answer.Renew
	}
}

// current returns the certificate, nil = none, and until when to renew it and to show it, by this process's clock.
func (c *Credential) current() (leaf *x509.Certificate, renewAt, ends time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaf == nil {
		return nil, renewAt, ends
	}
	return c.leaf, c.renewAt(), c.ends()
}

// Config is for both ends of a connection. The client must have one of the roles in from; the server must have
// the role to.
func (c *Credential) Config(to Role, from ...Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    c.pool, ClientCAs: c.pool, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName:           string(to),
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.present() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.present() },
		VerifyConnection: func(s tls.ConnectionState) error {
			return permitted(s, append([]Role{to}, from...))
		},
		// Each connection shows its certificates: an expired one must not live on in a ticket.
		SessionTicketsDisabled: true,
		Time:                   c.now,
	}
}

// permitted requires the other end to have one of the roles. Its chain has been verified.
func permitted(s tls.ConnectionState, roles []Role) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other end shows no certificate")
	}
	leaf := s.PeerCertificates[0]
	for _, role := range roles {
		if leaf.VerifyHostname(string(role)) == nil {
			return nil
		}
	}
	return fmt.Errorf("the other end is %q of the role %v; expected one of %v", leaf.Subject.CommonName, leaf.DNSNames, roles)
}
