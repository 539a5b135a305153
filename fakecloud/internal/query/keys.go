package query

import (
	"crypto"
	"crypto/ed25519"
	"crypto/md5" //nolint:gosec // EC2's fingerprints of imported RSA keys
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // EC2's fingerprints of RSA keys that it made
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

type keyPair struct {
	ID          string   `xml:"keyPairId" filter:"key-pair-id"`
	Name        string   `xml:"keyName" filter:"key-name"`
	Fingerprint string   `xml:"keyFingerprint" filter:"fingerprint"`
	Kind        string   `xml:"keyType,omitempty"`
	Material    string   `xml:"keyMaterial,omitempty"`
	Public      string   `xml:"publicKey,omitempty"`
	Created     *stamp   `xml:"createTime"`
	Tags        *tagList `xml:"tagSet"`
}

func keyPairShape(_ *call, s region.Resource) keyPair {
	kind, _, _ := strings.Cut(strings.TrimPrefix(s.Body, "ssh-"), " ")
	created := stamp(s.Created)
	return keyPair{ID: s.ID, Name: s.Name, Fingerprint: s.Text, Kind: kind, Created: &created, Tags: tagSet(s.Tags)}
}

func keyPairs(c *call) []keyPair {
	public := c.boolean("IncludePublicKey")
	return of(region.KeyPair, func(c *call, s region.Resource) keyPair {
		v := keyPairShape(c, s)
		if public {
			v.Public = s.Body
		}
		return v
	})(c)
}

type keyAnswer struct {
	header
	keyPair
}

// addKey stores the public half of a key.
func (c *call) addKey(name, public, fingerprint string, tags map[string]string) (keyPair, error) {
	if _, taken := c.region.Resource(region.KeyPair, name); taken {
		return keyPair{}, region.Errorf("InvalidKeyPair.Duplicate", "The keypair '%s' already exists.", name)
	}
	s := region.Resource{Kind: region.KeyPair, Name: name, Text: fingerprint, Body: public, Tags: tags}
	v := keyPairShape(c, c.region.AddResource(c.now, "key", s))
	v.Kind, v.Created = "", nil // EC2 shows them only in lists
	return v, nil
}

// createKeyPair creates a real one, which only the client can use.
func createKeyPair(c *call) (answer, error) {
	name, kind, format := c.required("KeyName"), c.text("KeyType"), c.text("KeyFormat")
	tags := c.tagSpecifications("TagSpecification", "key-pair")["key-pair"]
	if kind != "" && kind != "rsa" && kind != "ed25519" {
		c.invalid("KeyType", kind)
	}
	if format == "ppk" {
		c.fail(region.Errorf("Unsupported", "Keys in the form ppk are not supported here; use pem."))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	private, fingerprint, err := newKey(kind)
	if err != nil {
		return nil, err
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if k, ok := private.(*rsa.PrivateKey); ok {
		block = &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}
	} else {
		fingerprint = ed25519Fingerprint(public)
	}
	v, err := c.addKey(name, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))+" "+name, fingerprint, tags)
	if err != nil {
		return nil, err
	}
	v.Material = string(pem.EncodeToMemory(block))
	return &keyAnswer{keyPair: v}, nil
}

func newKey(kind string) (private crypto.Signer, fingerprint string, err error) {
	if kind == "ed25519" {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		return k, "", err
	}
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	return k, colons(sha1Sum(der)), err
}

func sha1Sum(b []byte) []byte { s := sha1.Sum(b); return s[:] } //nolint:gosec // see the import

func ed25519Fingerprint(k ssh.PublicKey) string {
	return strings.TrimPrefix(ssh.FingerprintSHA256(k), "SHA256:") + "="
}

func colons(b []byte) string {
	parts := make([]string, len(b))
	for n, x := range b {
		parts[n] = fmt.Sprintf("%02x", x)
	}
	return strings.Join(parts, ":")
}

// parseKey parses OpenSSH's format and that of RFC 4716.
func parseKey(text string) (ssh.PublicKey, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := len(lines) - 1; last > 1 && strings.HasPrefix(lines[0], "---- BEGIN SSH2") && strings.HasPrefix(lines[last], "---- END SSH2") {
		wire, err := base64.StdEncoding.DecodeString(strings.Join(lines[1:last], ""))
		if err != nil {
			return nil, err
		}
		return ssh.ParsePublicKey(wire)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	return public, err
}

func importKeyPair(c *call) (answer, error) {
	name, material := c.required("KeyName"), c.required("PublicKeyMaterial")
	tags := c.tagSpecifications("TagSpecification", "key-pair")["key-pair"]
	if err := c.ready(); err != nil {
		return nil, err
	}
	bad := region.Errorf("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
	text, err := base64.StdEncoding.DecodeString(material)
	if err != nil {
		return nil, bad
	}
	public, err := parseKey(string(text))
	if err != nil {
		return nil, bad
	}
	fingerprint := ed25519Fingerprint(public)
	switch public.Type() {
	case ssh.KeyAlgoED25519:
	case ssh.KeyAlgoRSA:
		der, err := x509.MarshalPKIXPublicKey(public.(ssh.CryptoPublicKey).CryptoPublicKey())
		if err != nil {
			return nil, bad
		}
		sum := md5.Sum(der) //nolint:gosec // see the import
		fingerprint = colons(sum[:])
	default:
		return nil, bad
	}
	v, err := c.addKey(name, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))+" "+name, fingerprint, tags)
	if err != nil {
		return nil, err
	}
	return &keyAnswer{keyPair: v}, nil
}

// deleteKeyPair succeeds, as on EC2, if there is none.
func deleteKeyPair(c *call) (answer, error) {
	name, id := c.text("KeyName"), c.text("KeyPairId")
	if name == "" && id == "" {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter KeyName or KeyPairId"))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	for _, s := range c.region.Resources(region.KeyPair) {
		if s.ID == id || id == "" && s.Name == name {
			c.region.RemoveResource(s.ID)
			id = s.ID
		}
	}
	return &struct {
		header
		Return bool   `xml:"return"`
		ID     string `xml:"keyPairId,omitempty"`
	}{Return: true, ID: id}, nil
}
