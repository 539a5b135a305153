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
			line("programs", "%s continued: the recommendation was known %.2f s after it and took no machine", words.Number(r.Programs, "program"), r.Until)
		} else if r.WentOn {
			line("programs", "%s went on elsewhere %.2f s after it; %s done again", words.Number(r.Programs, "program"), r.Until, words.Number(int(r.Steps), "step"))
		} else {
			line("programs", "have NOT gone on elsewhere")
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
		line("clocks", "the longest took %.3f s, usual were %.3f s; all until the moves were over took %.3f s more", r.Longest, r.Usual, max(r.Moves.Added, 0))
	case r.WentOn:
		line("stood still", "%.2f s: the longest time between two clocks was %.2f s, usual were %.2f s", r.Still, r.Longest, r.Usual)
		line("next clock", "a new clock was done %.2f s after it, once they were gone", r.Until)
	default:
		line("training", "has NOT gone on")
	}
	lost := "nothing: no clock was done again"
	if r.Rollback > 0 {
		lost = fmt.Sprintf("%s done again, after %s", words.Number(int(r.Lost), "clock"), words.Number(r.Rollback, "roll-back"))
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
		line("beside", "%s that were not meant left meanwhile", words.Number(r.Others, "machine"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m Moves) write(line func(name, format string, args ...any)) {
	line("copied", "%s, %.1f MB in %.3f s, %.1f %% of them hidden", words.Number(m.Partitions, "partition"), float64(m.Bytes)/1e6, m.Seconds, 100*m.Hidden)
	line("waited", "workers for partitions on their way: %.3f s in all, %.3f s for one", m.Waited, m.Longest)
}
