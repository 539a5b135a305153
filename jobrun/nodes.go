package jobrun

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/tierml/tierml/tiers"
)

// admission recognises machines by a token that this run's controllers put into their user data. It derives from a
// secret of the run, so a restarted controller recognises them, too.
type admission struct{ secret string }

// issue always returns the same token for the same launch.
func (a admission) issue(launch string) string {
	nonce := a.seal("launch " + launch)[:32]
	return nonce + "." + a.seal(nonce)
}

func (a admission) seal(nonce string) string {
	mac := hmac.New(sha256.New, []byte(a.secret))
	_, _ = mac.Write([]byte(nonce)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

func (a admission) accept(h tiers.Hello) error {
	nonce, seal, _ := strings.Cut(h.Token, ".")
	if a.secret == "" || !hmac.Equal([]byte(seal), []byte(a.seal(nonce))) {
		return errors.New("this controller did not launch that machine")
	}
	return nil
}
