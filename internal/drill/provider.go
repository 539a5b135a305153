package drill

import (
	"context"
	"errors"
	"fmt"
)

// Account is a real provider's, as far as it ends machines.
type Account interface {
	Terminate(ctx context.Context, machines []string) error
}

// Preempter is an account by which machines can be taken back as the provider does it itself, notice first.
type Preempter interface {
	Preempt(ctx context.Context, machines []string) error
}

// Possible says why something cannot be done to machines of a real provider, ec2 or gce; nil: it can.
func Possible(provider, do string) error {
	const kill = "; --do kill terminates machines"
	switch {
	case do == Kill, do == Evict && provider == "gce":
		return nil
	case do == EvictNow:
		return fmt.Errorf("no provider takes machines back without a notice on demand%s", kill)
	case provider == "gce":
		return fmt.Errorf("nothing is recommended beforehand on Compute Engine%s, and --do evict takes them back", kill)
	}
	return errors.New("EC2 sends true notices and recommendations by its Fault Injection Service only, which needs an experiment and a role of " +
		"its own (aws:ec2:send-spot-instance-interruptions)" + kill)
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
		if p, ok := account.(Preempter); ok {
			return p.Preempt(ctx, ids)
		}
	}
	return fmt.Errorf("%s cannot be done through this provider", do)
}

// Means says what will be done, for who is asked.
func Means(do string) string {
	if do == Evict {
		return "has Compute Engine take back, by a simulated maintenance event,"
	}
	return "terminates"
}
