// Package cloudname derives names of machines from names that people chose: a readable beginning and digests. Equal parts give equal names,
// so that a provider which refuses a taken name cannot launch the same request twice. It knows nothing about providers.
package cloudname

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Digest returns a digest of parts in that many letters and digits.
func Digest(length int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return lowerBase32.EncodeToString(sum[:])[:length]
}

var notInNames = pattern.Of(`[^a-z0-9]+`)

// Slug returns the legible part of a name, in at most this many lower-case letters, digits and hyphens; it begins with a letter.
func Slug(name string, most int) string {
	s := strings.Trim(notInNames().ReplaceAllString(strings.ToLower(name), "-"), "-")
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		s = "t" + s
	}
	return strings.TrimRight(s[:min(len(s), most)], "-")
}
