package wrap

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/provisioner"
)

// Fault is what goes wrong with a call.
type Fault string

// After and Hang are what a network does; the others are a provider's answers, and the call is not made.
const (
	// After: the call is made, and its answer is lost.
	After Fault = "after"
	// Hang: nothing happens until the caller's context is done.
	Hang Fault = "hang"
)

// answers are the faults that are a provider's error.
var answers = map[Fault]error{
	"no-capacity":   provisioner.ErrNoCapacity,
	"price-too-low": provisioner.ErrPriceTooLow,
	"limit":         provisioner.ErrLimit,
	"throttled":     provisioner.ErrThrottled,
	"temporary":     provisioner.ErrTemporary,
	"not-found":     provisioner.ErrNotFound,
	"invalid":       provisioner.ErrInvalid,
	"denied":        provisioner.ErrDenied,
}

// FaultNames lists the faults that a plan can name, sorted.
func FaultNames() []string {
	names := []string{string(After), string(Hang)}
	for f := range answers {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}

// Step lets a method's calls From to To fail, counted from 1 since the start of the run.
type Step struct {
	Op       Op
	From, To int
	Fault    Fault
}

// Plan is a list of steps; the first that fits a call counts.
type Plan []Step

// String gives the form that ParsePlan reads: "launch#3=no-capacity; terminate#1-4=throttled".
func (p Plan) String() string {
	texts := make([]string, len(p))
	for i, s := range p {
		texts[i] = s.String()
	}
	return strings.Join(texts, "; ")
}

// String gives "launch#3=no-capacity" or "launch#3-5=no-capacity".
func (s Step) String() string {
	text := string(s.Op) + "#" + strconv.Itoa(s.From)
	if s.To != s.From {
		text += "-" + strconv.Itoa(s.To)
	}
	return text + "=" + string(s.Fault)
}

// ParsePlan reads steps such as "launch#3=no-capacity; terminate#1-4=throttled; launch#6=after". An empty text
// is a plan without faults.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		step, err := parseStep(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("fault plan: %w", err)
		}
		p = append(p, step)
	}
	return p, nil
}

func parseStep(text string) (Step, error) {
	where, fault, hasFault := strings.Cut(text, "=")
	op, calls, hasCalls := strings.Cut(where, "#")
	if !hasFault || !hasCalls {
		return Step{}, fmt.Errorf("step %q: want CALL#NUMBER=FAULT, such as launch#3=no-capacity", text)
	}
	s := Step{Op: Op(op), Fault: Fault(fault)}
	if !slices.Contains([]Op{OpLaunch, OpTerminate, OpList, OpNotify}, s.Op) {
		return Step{}, fmt.Errorf("step %q: call %q is none of launch, terminate, list, notify", text, op)
	}
	if !slices.Contains(FaultNames(), fault) {
		return Step{}, fmt.Errorf("step %q: fault %q is none of %s", text, fault, strings.Join(FaultNames(), ", "))
	}
	from, to, ranged := strings.Cut(calls, "-")
	if !ranged {
		to = from
	}
	var err1, err2 error
	s.From, err1 = strconv.Atoi(from)
	s.To, err2 = strconv.Atoi(to)
	if err := cmp.Or(err1, err2); err != nil || s.From < 1 || s.To < s.From {
		return Step{}, fmt.Errorf("step %q: %q is no number of a call (from 1) and no range such as 2-5", text, calls)
	}
	return s, nil
}

// at gives the fault of a call; "" = none.
func (p Plan) at(op Op, number int) Fault {
	for _, s := range p {
		if s.Op == op && s.From <= number && number <= s.To {
			return s.Fault
		}
	}
	return ""
}
