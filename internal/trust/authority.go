// Package trust decides which machines and people belong to a run: a certificate authority of its own, one-time tokens by which machines join,
// certificates that live briefly and are renewed, and the TLS settings that follow. It knows nothing about the protocols on
// the connections, or about launches.
//
// Everything about a run's trust is in its directory (AuthorityFile, JoinedFile), readable for its owner alone, so that a
// controller that is started again continues where the one before it was. docs/security.md says what this keeps out, and
// what it does not.
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

// AuthorityFile has the authority's certificate and its private key: a reader of it may do everything in the run.
const AuthorityFile = "authority.pem"

// Role is what a certificate lets its holder be; it is the name in it.
type Role string

// The two roles. Both ends ask for the one that they expect: a machine cannot play the controller.
const (
	Controller Role = "controller.tierml.internal"
	Machine    Role = "machine.tierml.internal"
)

const (
	// authorityLife is longer than any run; the authority ends with its file.
	authorityLife = 5 * 365 * 24 * time.Hour
	// skew is by how much clocks of hosts may differ: two hosts whose clocks are an hour off in opposite directions, as by daylight
	// saving time, and some minutes. What it costs: a stolen certificate or token is good for that much longer. Neither opens
	// anything beyond its run, and the holder of a certificate's key can renew it for as long as the run lasts anyway.
	skew = 2*time.Hour + 10*time.Minute
	// LeastLife is how long a certificate is good for at least, whatever the clocks.
	LeastLife = time.Hour
)

// LifeFor returns how long certificates are good for where machines train on without a controller for as long as orphanAfter.
// They are renewed at half of it, so one that could not be renewed outlives its machine's patience.
func LifeFor(orphanAfter time.Duration) time.Duration { return max(LeastLife, 4*orphanAfter) }

// Authority signs the certificates of one run.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	life        time.Duration // of what it signs
	now         func() time.Time
}

// OpenAuthority returns the authority of the run in a directory; the first time it makes one.
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
		NotBefore: now.Add(-authorityLife), NotAfter: now.Add(authorityLife), // it is known by its hash: time says nothing about it
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

// Hash names the authority; a machine that knows it cannot be deceived about whom it joins.
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
