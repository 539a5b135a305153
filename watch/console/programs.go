package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/terminal"
)

// narrow is the width below which a line has only its most important part.
const narrow = 60

// fit joins parts on one line, or one line each if they do not fit; empty parts are omitted.
func (picture) fit(width int, parts ...string) (lines []string) {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if line := " " + strings.Join(parts, ", "); ansi.StringWidth(line) <= width {
		return []string{line}
	}
	for _, p := range parts {
		for line := range strings.SplitSeq(ansi.Wordwrap(p, width-1, ""), "\n") {
			lines = append(lines, " "+line)
		}
	}
	return lines
}

// programLines returns the states of ranks or tasks, the best trial, and the most important members as far as they fit.
func (s picture) programLines(now time.Time, width, height int) (lines []string) {
	p := s.Ledger.Programs(now)
	if p == nil || len(p.Members) == 0 {
		return nil
	}
	if p.Tasks > 0 || len(p.Members) > 1 {
		lines = append(lines, s.fit(width, p.States())...)
	}
	if best := p.Best(); best != nil {
		lines = append(lines, s.fit(width, fmt.Sprintf("%-9s%s  loss %s at step %d", "best", bold.Render(best.Name()), bold.Render(fmt.Sprintf("%.5g", *best.Loss)), best.Step),
			terminal.Line(best.Words()))...)
	}
	order := map[string]int{journal.Failure: -2, cost.Running: -1}
	members := slices.Clone(p.Members)
	slices.SortStableFunc(members, func(a, b cost.Member) int { return cmp.Compare(order[a.State], order[b.State]) })
	most := max(2, height/5)
	for i, m := range members {
		if order[m.State] == 0 && p.Tasks > 0 { // ended ones are in the report
			break
		}
		if i == most {
			return append(lines, soft.Render(fmt.Sprintf("   and %d more", len(members)-i)))
		}
		lines = append(lines, memberLine(m, width))
	}
	return lines
}

func memberLine(m cost.Member, width int) string {
	state := fmt.Sprintf("%-9s", terminal.Line(m.State))
	if m.State == journal.Failure {
		state = bad.Render(state)
	}
	text := fmt.Sprintf("   %-9s %s", terminal.Line(m.Name), state)
	if m.Step > 0 {
		text += fmt.Sprintf(" step %d", m.Step)
	}
	if m.Loss != nil {
		text += fmt.Sprintf(" loss %.4g", *m.Loss)
	}
	if m.Code != 0 && m.State == journal.Failure {
		text += fmt.Sprintf(" exit code %d", m.Code)
	}
	if width < narrow {
		return text
	}
	if m.Attempts > 1 {
		text += fmt.Sprintf(", attempt %d", m.Attempts)
	}
	return text + soft.Render(" on "+terminal.Line(m.Machine)+" "+terminal.Line(words.Pool(m.Pool)))
}

// lastLines is the number of lines of a failed program's output on the screen.
const lastLines = 8

// failureLines returns why the run failed, and what can be done about it.
func (s picture) failureLines(now time.Time, width int) (lines []string) {
	f := s.Ledger.Failure(now)
	if f == nil {
		return nil
	}
	lines = append(s.fit(width, bad.Render(terminal.Line(f.Why))), "")
	if f.Member != nil {
		lines = append(lines, s.fit(width, terminal.Line(f.Member.Place()))...)
	}
	output := strings.Split(strings.TrimRight(f.Output, "\n"), "\n")
	for _, line := range output[max(0, len(output)-lastLines):] {
		for part := range strings.SplitSeq(ansi.Hardwrap(terminal.Line(line), max(width-3, 1), true), "\n") {
			if f.Output != "" {
				lines = append(lines, soft.Render(" | ")+part)
			}
		}
	}
	return append(append(lines, s.fit(width, "lost: "+terminal.Line(f.Lost))...), "")
}
