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

// given is where this process gets keys; nil = it uses what it finds, as the providers' own tools do.
var given atomic.Pointer[func() (Keys, error)]

// UseKeys has this process open all objects with keys from a source, which is called for each, instead of what it finds. A nil source
// ends that.
func UseKeys(source func() (Keys, error)) {
	if source == nil {
		given.Store(nil)
		return
	}
	given.Store(&source)
}
