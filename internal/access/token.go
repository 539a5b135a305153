// Package access controls access to this program's HTTP servers: callers present a token, over an encrypted connection. It creates and
// reads token files, admits requests with the token, and refuses to listen where the token would be sent unencrypted.
//
// It knows nothing about the pages behind it.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Token is a secret that opens a door. Printing it does not show its value: a token does not belong in a log.
type Token struct{ secret string }

// String hides the secret.
func (Token) String() string { return "(a token)" }

// GoString hides the secret, too.
func (Token) GoString() string { return "access.Token{}" }

// Zero reports whether there is no token.
func (t Token) Zero() bool { return t.secret == "" }

// Bearer returns the value of the Authorization header that shows the token.
func (t Token) Bearer() string { return "Bearer " + t.secret }

// SHA256 identifies a token to a server that should accept it: a random token cannot be derived from its sum.
func (t Token) SHA256() string {
	sum := sha256.Sum256([]byte(t.secret))
	return hex.EncodeToString(sum[:])
}

// Sum is the SHA-256 of a token that is not known here.
type Sum [sha256.Size]byte

// ParseSum parses the result of SHA256.
func ParseSum(text string) (s Sum, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(s) {
		return s, errors.New("a token's SHA-256 has 64 hexadecimal digits")
	}
	if s = Sum(raw); s.Is("") {
		return s, errors.New("it is the SHA-256 of nothing: was the token's file empty?")
	}
	return s, nil
}

// Is reports whether two tokens are equal, in constant time.
func (s Sum) Is(given string) bool {
	other := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(s[:], other[:]) == 1
}

// Random returns a token of 130 bits.
func Random() Token { return Token{rand.Text()} }

// shortest is the minimum length that cannot be guessed by trying; more than longest is a mistake.
const shortest, longest = 16, 1024

var errShort = fmt.Errorf("a token has at least %d characters", shortest)

// Parse parses the content of a token file or variable.
func Parse(text string) (Token, error) {
	secret := strings.TrimSpace(text)
	switch {
	case len(secret) < shortest:
		return Token{}, errShort
	case len(secret) > longest || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Token{}, fmt.Errorf("a token is one word of at most %d printable ASCII characters", longest)
	}
	return Token{secret}, nil
}

// Read reads the token from a file, which only its owner may be able to read.
func Read(path string) (Token, error) {
	file, err := os.Open(path)
	if err != nil {
		return Token{}, fmt.Errorf("reading the token: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Token{}, fmt.Errorf("reading the token: %w", err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return Token{}, fmt.Errorf("the token file %s can be read by others (mode %#o); write `chmod 600 %s`", path, mode.Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, longest+2))
	if err != nil {
		return Token{}, fmt.Errorf("reading the token: %w", err)
	}
	token, err := Parse(string(text))
	if err != nil {
		return Token{}, fmt.Errorf("the token file %s: %w", path, err)
	}
	return token, nil
}

// Ensure is Read, and creates the file if it does not exist.
func Ensure(path string) (token Token, made bool, err error) {
	if token, err = Read(path); !errors.Is(err, fs.ErrNotExist) {
		if errors.Is(err, errShort) {
			err = fmt.Errorf("%w; remove the file to have one made", err)
		}
		return token, false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Token{}, false, fmt.Errorf("making the token file: %w", err)
	}
	token = Random()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process has just created it
		token, err = Read(path)
		return token, false, err
	}
	if err != nil {
		return Token{}, false, fmt.Errorf("making the token file: %w", err)
	}
	_, err = file.WriteString(token.secret + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return Token{}, false, fmt.Errorf("making the token file: %w", err)
	}
	return token, true, nil
}
