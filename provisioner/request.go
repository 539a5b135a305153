package provisioner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/market"
)

// MaxToken is the longest Token that every provider accepts.
const MaxToken = 64

// OwnTagPrefix begins the names of the project's own tags on machines.
const OwnTagPrefix = "tierml:"

// Validate checks what can be checked without asking the provider. It reports every fault, as ErrInvalid.
func (r Request) Validate(t Traits) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case r.Token == "":
		fault("token is empty: give each request its own")
	case len(r.Token) > MaxToken || !printable(r.Token):
		fault("token %q: at most %d printable ASCII characters", r.Token, MaxToken)
	}
	if r.Pool.Provider != t.Provider {
		fault("pool %s is not sold by %s", r.Pool, t.Provider)
	}
	if r.Pool.Zone == "" || r.Pool.Type == "" {
		fault("pool %s lacks a zone or a type", r.Pool)
	}
	if r.Pool.Class != market.Spot && r.Pool.Class != market.OnDemand {
		fault("class %q is neither %q nor %q", r.Pool.Class, market.Spot, market.OnDemand)
	}
	if r.Count < 1 {
		fault("count %d: ask for at least 1 machine", r.Count)
	}
	if t.MaxLaunch > 0 && r.Count > t.MaxLaunch {
		fault("count %d: %s launches at most %d machines at once", r.Count, t.Provider, t.MaxLaunch)
	}
	faults = append(faults, r.bidFaults(t)...)
	faults = append(faults, r.choiceFaults(t)...)
	if t.MaxUserData > 0 && len(r.UserData) > t.MaxUserData {
		fault("user data has %d bytes: %s takes at most %d", len(r.UserData), t.Provider, t.MaxUserData)
	}
	for _, name := range r.TagNames() {
		if strings.HasPrefix(name, OwnTagPrefix) {
			fault("tag %q: names that begin with %q are kept for the cluster itself", name, OwnTagPrefix)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
}

func (r Request) bidFaults(t Traits) []error {
	switch {
	case r.Bid < 0:
		return []error{fmt.Errorf("bid %s is below zero", r.Bid)}
	case r.Bid > 0 && r.Pool.Class == market.OnDemand:
		return []error{fmt.Errorf("bid %s: on-demand machines have a fixed price", r.Bid)}
	case r.Bid > 0 && !t.MaxBid:
		return []error{fmt.Errorf("bid %s: %s takes no bids", r.Bid, t.Provider)}
	}
	return nil
}

func (r Request) choiceFaults(t Traits) (faults []error) {
	if len(r.Or) > 0 && !t.Chooses {
		return []error{fmt.Errorf("%d other pools: %s does not choose", len(r.Or), t.Provider)}
	}
	seen := map[market.Pool]bool{r.Pool: true}
	for _, c := range r.Or {
		one := r
		one.Pool, one.Bid, one.Or = c.Pool, c.Bid, nil
		switch {
		case seen[c.Pool]:
			faults = append(faults, fmt.Errorf("pool %s is named twice", c.Pool))
		case c.Pool.Provider != r.Pool.Provider || c.Pool.Region != r.Pool.Region || c.Pool.Class != r.Pool.Class:
			faults = append(faults, fmt.Errorf("pool %s is not sold where and as %s is", c.Pool, r.Pool))
		case c.Pool.Zone == "" || c.Pool.Type == "":
			faults = append(faults, fmt.Errorf("pool %s lacks a zone or a type", c.Pool))
		}
		seen[c.Pool] = true
		faults = append(faults, one.bidFaults(t)...)
	}
	return faults
}

// BidFor returns the bid for a pool of the request.
func (r Request) BidFor(p market.Pool) market.USD {
	for _, c := range r.Or {
		if c.Pool == p {
			return c.Bid
		}
	}
	return r.Bid
}

// TagNames returns the names of the request's own tags, sorted.
func (r Request) TagNames() []string {
	names := make([]string, 0, len(r.Tags))
	for name := range r.Tags {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}
