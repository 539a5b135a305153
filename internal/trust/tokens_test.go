package trust

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"
)

// issue makes a token for a new launch.
func (t *Tokens) issue(machines int) string { return t.Issue(rand.Text(), t.now(), machines) }

// A launch that is repeated, by this controller or by the next one, must have the same user data: providers compare it. Tokens of different
// launches, and of different runs, differ.
func TestATokenIsOfItsLaunch(t *testing.T) {
	decided := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	open := func(secret string, now time.Time) *Tokens {
		tokens, err := OpenTokens(t.TempDir(), secret, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tokens.Close() })
		return tokens
	}
	token := open("secret", decided).Issue("ratings-1-0-3", decided, 2)
	if again := open("secret", decided.Add(time.Minute)).Issue("ratings-1-0-3", decided, 2); again != token {
		t.Errorf("the controller after it made %s, want %s", again, token)
	}
	for name, other := range map[string]string{
		"launch": open("secret", decided).Issue("ratings-1-0-4", decided, 2),
		"run":    open("other", decided).Issue("ratings-1-0-3", decided, 2),
		"count":  open("secret", decided).Issue("ratings-1-0-3", decided, 3),
	} {
		if other == token {
			t.Errorf("another %s has the same token", name)
		}
	}
	late := open("secret", decided.Add(TokenLife+skew+time.Second))
	if err := late.spend(token, "i-1", []byte("key")); !errors.Is(err, errTooLate) {
		t.Errorf("%v: a token lives from when its launch was decided", err)
	}
}
