package drill

import (
	"context"
	"errors"
	"fmt"
)

// Account is a real provider's, as far as it ends machines.
type Account interface {
	Terminate(ctx context.Context, machines []string) error
	// Preempt takes machines back as the provider does it itself, notice first, where it can.
	Preempt(ctx context.Context, machines []string) error
}

// Possible returns why something cannot be done to machines of a real provider; nil: it can. Undoable is what the provider cannot do,
// with its reasons.
func Possible(do string, undoable map[string]string) error {
	const kill = "; --do kill terminates machines"
	switch reason, cannot := undoable[do]; {
	case do == EvictNow:
		return errors.New("no provider takes machines back without a notice on demand" + kill)
	case !cannot:
		return nil
	case undoable[Evict] == "":
		return errors.New(reason + kill + ", and --do evict takes them back")
	default:
		return errors.New(reason + kill)
	}
}

// Through does it to machines through the account.
func Through(ctx context.Context, account Account, do string, machines []Machine) error {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = m.ID
	}
	switch do {
	case Kill:
		return account.Terminate(ctx, ids)
	case Evict:
		return account.Preempt(ctx, ids)
	}
	return fmt.Errorf("%s cannot be done through this provider", do)
}
