package adapter

// Answer is a provider's error, in few words.
type Answer struct {
	Doing         string // the attempted operation
	Kind          error  // one of the contract's; nil = unknown
	Code, Message string // the provider's
	Hint          string // what a person can do; "" = unknown
	Request       string // the provider's id of the request, for its support; "" = none was reported
	Err           error  // from the provider's client; nil = none
}

// Error returns the operation, the kind of failure, and what the provider says.
func (a *Answer) Error() string {
	text := a.Doing + ": "
	if a.Kind != nil {
		text += a.Kind.Error() + ": "
	}
	text += a.Code
	if a.Message != "" {
		text += ": " + a.Message
	}
	if a.Hint != "" {
		text += " (" + a.Hint + ")"
	}
	if a.Request != "" {
		text += " [request " + a.Request + "]"
	}
	return text
}

// Unwrap returns the contract's error and the client's.
func (a *Answer) Unwrap() []error {
	var errs []error
	for _, err := range []error{a.Kind, a.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
