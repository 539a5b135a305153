package journal

// Kinds of runs, by their jobs. Pages, lists and metrics use these words.
const (
	Training = "training"
	DiLoCo   = "diloco" // replicas of a program's model, averaged in rounds
	Single   = "program"
	Gang     = "gang" // one program on several machines
	Array    = "array"
	Sweep    = "sweep" // an array whose tasks are trials
	Hosts    = "hosts" // machines that jobs share
)

// JobKind returns what the run is.
func (d StartDetails) JobKind() string {
	switch p := d.Program; {
	case p != nil && p.Sweep:
		return Sweep
	case p != nil && p.Tasks > 0:
		return Array
	case p != nil && d.Want.Machines > 1:
		return Gang
	case p != nil:
		return Single
	case d.App == DiLoCo || d.App == Hosts:
		return d.App
	}
	return Training
}

// Unit returns what a kind of run counts in.
func Unit(kind string) string {
	switch kind {
	case Sweep:
		return "trial"
	case Array:
		return "task"
	case Gang, Single:
		return "step"
	case DiLoCo:
		return "round"
	}
	return "clock"
}
