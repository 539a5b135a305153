package provisioner

import "errors"

// Errors that callers distinguish (errors.Is); adapters wrap the provider's own errors with them.
var (
	// ErrNoCapacity: the pool has no machine left now. Another pool may.
	ErrNoCapacity = errors.New("no capacity")
	// ErrPriceTooLow: the pool's price is above the bid now.
	ErrPriceTooLow = errors.New("bid is below the spot price")
	// ErrLimit: the account may not have more; retrying does not help until machines end or the provider raises the limit.
	ErrLimit = errors.New("account limit reached")
	// ErrThrottled: too many calls; the same call will work later.
	ErrThrottled = errors.New("request rate limit reached")
	// ErrTemporary: the provider or the connection to it failed; the call may or may not have been carried out, and retrying is right.
	ErrTemporary = errors.New("temporary failure")
	// ErrNotFound: something that the request names does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never work as it is.
	ErrInvalid = errors.New("invalid request")
	// ErrDenied: the credentials are missing, wrong or not allowed to do this.
	ErrDenied = errors.New("not allowed")
)

// Definite reports whether an error means that a launch has bought nothing, and never will.
func Definite(err error) bool {
	for _, kind := range []error{ErrNoCapacity, ErrPriceTooLow, ErrLimit, ErrNotFound, ErrInvalid, ErrDenied} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Retryable reports whether the same call may succeed a little later.
func Retryable(err error) bool {
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrTemporary)
}
