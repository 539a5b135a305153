package blob

import (
	"sync/atomic"
	"time"
)

// Keys are temporary credentials for a part of a store: those of S3, or a token of Cloud Storage.
type Keys struct {
	AccessKeyID     string    `json:"access_key_id,omitempty"`
	SecretAccessKey string    `json:"secret_access_key,omitempty"`
	SessionToken    string    `json:"session_token,omitempty"`
	Token           string    `json:"token,omitempty"`
	Expires         time.Time `json:"expires"`
}

// given is this process's source of keys; nil = the same sources as in the providers' own tools.
var given atomic.Pointer[func() (Keys, error)]

// UseKeys makes this process open all objects with keys from a source, which is called for each. A nil source ends that.
func UseKeys(source func() (Keys, error)) {
	if source == nil {
		given.Store(nil)
		return
	}
	given.Store(&source)
}
