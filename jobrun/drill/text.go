package drill

import (
	"fmt"
	"io"
	"strings"

	"github.com/tierml/tierml/internal/journal/words"
)

// WriteText describes a drill's outcome.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	of := words.Number(len(r.Targets), "machine")
	if r.Do == Move {
		of = "all partitions"
	}
	fmt.Fprintf(&b, "\n%s of %s, at %s of market time:\n", r.Do, of, r.At.UTC().Format("2006-01-02 15:04:05"))
	if r.Do != Rebalance && r.Do != Move {
		line("gone", "%d of %d", r.Gone, len(r.Targets))
	}
	if r.Programs > 0 {
		if r.WentOn && r.Do == Rebalance {
			line("programs", "%s continued: the recommendation arrived after %.2f s and took no machine", words.Number(r.Programs, "program"), r.Until)
		} else if r.WentOn {
			line("programs", "%s resumed elsewhere after %.2f s; %s repeated", words.Number(r.Programs, "program"), r.Until, words.Number(int(r.Steps), "step"))
		} else {
			line("programs", "have NOT resumed elsewhere")
		}
		if r.Launched > 0 {
			line("bought", "%s", words.Number(r.Launched, "machine"))
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	switch {
	case r.WentOn && r.Do == Move:
		r.Moves.write(line)
		line("clocks", "the longest took %.3f s, normally %.3f s; all until the end of the moves took %.3f s more", r.Longest, r.Usual, max(r.Moves.Added, 0))
	case r.WentOn:
		line("stalled", "%.2f s: the longest time between two clocks was %.2f s, normally %.2f s", r.Still, r.Longest, r.Usual)
		line("next clock", "completed %.2f s after the drill, with the machines gone", r.Until)
	default:
		line("training", "has NOT continued")
	}
	lost := "nothing: no clock was repeated"
	if r.Rollback > 0 {
		lost = fmt.Sprintf("%s repeated, after %s", words.Number(int(r.Lost), "clock"), words.Number(r.Rollback, "roll-back"))
	}
	line("lost", "%s", lost)
	if r.Do != Move {
		line("moved", "%s of the parameters; %s committed meanwhile", words.Number(r.Moved, "partition"), words.Number(r.Cuts, "cut"))
	}
	if r.Launched > 0 {
		line("bought", "%s", words.Number(r.Launched, "machine"))
	}
	if len(r.Stages) > 0 {
		line("stages", "%s", strings.Join(r.Stages, ", "))
	}
	if r.Others > 0 {
		line("others", "%s that were not targeted left meanwhile", words.Number(r.Others, "machine"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m Moves) write(line func(name, format string, args ...any)) {
	line("copied", "%s, %.1f MB in %.3f s, %.1f %% of that time hidden", words.Number(m.Partitions, "partition"), float64(m.Bytes)/1e6, m.Seconds, 100*m.Hidden)
	line("waited", "workers, for partitions in transit: %.3f s in all, %.3f s for one", m.Waited, m.Longest)
}
