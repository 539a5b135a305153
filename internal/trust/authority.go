// Package trust decides which machines and people belong to a run: with its own certificate authority, one-time tokens with which machines
// join, short-lived certificates that are renewed, and the resulting TLS settings. It knows nothing about the protocols on the connections,
// or about launches.
//
// The whole state of a run's trust is in its directory (AuthorityFile, JoinedFile), readable only for its owner, so that a restarted
// controller continues where its predecessor stopped. docs/security.md says what this protects from, and what it does not.
package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/atomicfile"
)

// AuthorityFile holds the authority's certificate and private key: a reader of it may do everything in the run.
const AuthorityFile = "authority.pem"

// Role is what a certificate entitles its holder to be; it is the certificate's name.
type Role string

// The two roles. Both ends require the role that they expect: a machine cannot play the controller.
const (
	Controller Role = "controller.tierml.internal"
	Machine    Role = "machine.tierml.internal"
)

const (
	// authorityLife is longer than any run; the authority ceases to exist with its file.
	authorityLife = 5 * 365 * 24 * time.Hour
	// skew is how far the clocks of hosts may differ: two hosts whose clocks are an hour off in opposite directions, for example by
	// daylight saving time, plus some minutes. The price: a stolen certificate or token remains valid for that much longer. Neither gives
	// access to anything beyond its run, and the holder of a certificate's key can renew it as long as the run lasts anyway.
	skew = 2*time.Hour + 10*time.Minute
	// LeastLife is the minimum lifetime of a certificate, whatever the clocks.
	LeastLife = time.Hour
)

// LifeFor returns the lifetime of certificates if machines train without a controller for as long as orphanAfter. They are renewed after
// half of it, so one that could not be renewed outlasts its machine's patience.
func LifeFor(orphanAfter time.Duration) time.Duration { return max(LeastLife, 4*orphanAfter) }

// Authority signs the certificates of one run.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	life        time.Duration // of the certificates that it signs
	now         func() time.Time
}

// OpenAuthority returns the authority of the run in a directory, and creates it the first time.
func OpenAuthority(directory string, life time.Duration, now func() time.Time) (*Authority, error) {
	path := filepath.Join(directory, AuthorityFile)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if text, err = newAuthority(filepath.Base(directory), now()); err == nil {
			err = atomicfile.Write(path, text, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("making the run's certificate authority: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("opening the run's certificate authority: %w", err)
	}
	a, err := parseAuthority(text)
	if err != nil {
		return nil, fmt.Errorf("opening the run's certificate authority: %s: %w", path, err)
	}
	a.life, a.now = life, now
	return a, nil
}

func newAuthority(run string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tierml run " + run},
		NotBefore: now.Add(-authorityLife), NotAfter: now.Add(authorityLife), // it is identified by its hash: dates do not matter
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), private...), nil
}

func parseAuthority(text []byte) (*Authority, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("there is no certificate in it")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(rest)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("its key is not that of its certificate")
	}
	return &Authority{certificate: certificate, key: key}, nil
}

// Hash identifies the authority; a machine that knows it cannot be deceived about which run it joins.
func (a *Authority) Hash() string { return hashOf(a.certificate) }

func hashOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue signs a certificate for a key.
func (a *Authority) issue(role Role, name string, key crypto.PublicKey) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{string(role)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(a.life + skew), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("there is no private key in it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("its private key is of another kind")
	}
	return own, nil
}
