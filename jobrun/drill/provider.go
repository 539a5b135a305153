package drill

import (
	"context"
	"errors"
	"fmt"
)

// Account is a real provider's account, as far as it ends machines.
type Account interface {
	Terminate(ctx context.Context, machines []string) error
	// Preempt reclaims machines as the provider does it itself, with notice, if possible.
	Preempt(ctx context.Context, machines []string) error
}

// Possible returns why a disturbance is impossible on a real provider's machines; nil if possible. Undoable are the disturbances that the
// provider does not support, with reasons.
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

// Through disturbs machines through the account.
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
