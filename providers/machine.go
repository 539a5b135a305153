package providers

import (
	"log/slog"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Variable names the provider in the environment of a machine.
const Variable = "TIERML_PROVIDER"

// Machine is this machine as its provider describes it: the provider named in the environment, or the one whose cloud of this program has
// started it, or the first that there is.
func Machine(env func(string) string, m clock.Mapping, log *slog.Logger) (node.Machine, error) {
	if name := env(Variable); name != "" {
		p, err := Named(name)
		if err != nil {
			return nil, err
		}
		return p.Metadata(m, log), nil
	}
	all := All()
	p := all[0]
	for _, other := range all {
		if name := other.Facts().MetadataVariable; name != "" && env(name) != "" {
			p = other
		}
	}
	return p.Metadata(m, log), nil
}

// TermWarns reports whether SIGTERM warns this machine of its end, instead of asking its agent to end.
func TermWarns(env func(string) string) bool {
	p, err := Named(env(Variable))
	return err == nil && p.Facts().TermWarns
}

// Warned returns a notice as an agent passes it on.
func Warned(n provisioner.Notice) tiers.Warned {
	return tiers.Warned{Rebalance: n.Kind == provisioner.Rebalance, Deadline: n.Deadline}
}

// Report logs that a provider could not be asked.
func Report(log *slog.Logger) func(error) {
	return func(err error) { log.Warn("watching for notices", "error", err) }
}
