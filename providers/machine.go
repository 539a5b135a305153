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

// Machine returns this machine's description by its provider: the one named in the environment, the one whose cloud of
// this program started it, or the first available.
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

// TermWarns reports whether SIGTERM warns this machine of its end, rather than ending its agent.
func TermWarns(env func(string) string) bool {
	p, err := Named(env(Variable))
	return err == nil && p.Facts().TermWarns
}

// SlotsHave returns the variables of this machine's environment that its slots have, too, if jobs share it.
func SlotsHave(env func(string) string) []string {
	if p, err := Named(env(Variable)); err == nil {
		return p.Facts().SlotsHave
	}
	return nil
}

// Warned converts a notice to the form that agents pass on.
func Warned(n provisioner.Notice) tiers.Warned {
	return tiers.Warned{Rebalance: n.Kind == provisioner.Rebalance, Deadline: n.Deadline}
}

// Report returns a function that logs that a provider could not be reached.
func Report(log *slog.Logger) func(error) {
	return func(err error) { log.Warn("watching for notices", "error", err) }
}
