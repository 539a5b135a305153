package console

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/watch/status"
)

var (
	bold   = lipgloss.NewStyle().Bold(true)
	soft   = lipgloss.NewStyle().Faint(true)
	title  = lipgloss.NewStyle().Bold(true).Reverse(true)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

// picture draws a run's state.
type picture struct {
	*status.Status
	watching bool // another's run
}

// draw makes the screen at a market time. It is exactly height lines of at most width cells; the events get the remaining lines.
func (s picture) draw(now time.Time, width, height, interrupted int) string {
	if width <= 0 || height <= 0 {
		return ""
	}
	lines := []string{s.titleLine(now, width), ""}
	if s.Outcome == journal.Failure {
		lines = append(lines, s.failureLines(now, width)...)
	}
	lines = append(lines, s.trainingLines(width)...)
	if s.Start.Program != nil {
		lines = append(lines, s.programLines(now, width, height)...)
	}
	lines = append(lines, "")
	lines = append(lines, s.machineLines(width, height)...)
	lines = append(lines, "")
	lines = append(lines, s.moneyLines(now, width)...)
	if o, ok := s.Outlook(now); ok {
		lines = append(lines, s.fit(width, "about "+bold.Render(o.Time().String())+" left", o.Time().Range)...)
		lines = append(lines, s.fit(width, o.Cost())...)
	}
	lines = append(lines, "")
	footer := soft.Render("q or Ctrl-C: stop cleanly")
	switch {
	case s.watching && s.Outcome == "":
		footer = soft.Render("q or Ctrl-C: leave; the run continues")
	case s.Outcome != "":
		footer = bold.Render("done: " + terminal.Line(s.Outcome))
	case interrupted == 1:
		footer = bold.Render("stopping cleanly; once more: at once")
	case interrupted > 1:
		footer = bold.Render("stopping at once")
	}
	room := height - len(lines) - 1
	lines = append(lines, s.eventLines(max(0, room), width)...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:height-1], footer)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return strings.Join(lines, "\n")
}

func (s picture) titleLine(now time.Time, width int) string {
	left := fmt.Sprintf(" %s  %s", terminal.Line(s.Start.Name), terminal.Line(s.what()))
	right := now.UTC().Format("2006-01-02 15:04:05")
	if s.Mapping.Speed != 1 {
		right += fmt.Sprintf(" market time x%g", s.Mapping.Speed)
	}
	if ansi.StringWidth(left+right)+2 > width {
		right = now.UTC().Format("15:04:05")
	}
	gap := max(1, width-ansi.StringWidth(left)-ansi.StringWidth(right)-1)
	return title.Render(left + strings.Repeat(" ", gap) + right + " ")
}

// what returns the kind of run or, when training, of model.
func (s picture) what() string {
	kind := s.Start.JobKind()
	if d := s.Start.Program; d != nil && d.Tasks > 0 {
		return fmt.Sprintf("%s of %s", kind, words.Number(d.Tasks, s.Unit()))
	}
	if kind == journal.Training {
		return s.Start.App
	}
	return kind
}

func (s picture) trainingLines(width int) []string {
	unit := fmt.Sprintf("%-9s", s.Unit())
	clock := unit + bold.Render(fmt.Sprint(s.Clock))
	if s.Start.Clocks > 0 {
		share := float64(s.Clock) / float64(s.Start.Clocks)
		clock = fmt.Sprintf("%s%s of %d  %s", unit, bold.Render(fmt.Sprint(s.Clock)), s.Start.Clocks, bar(share, min(30, width/3)))
	}
	if s.Seconds > 0 {
		clock += fmt.Sprintf("  %.2f s each", s.Seconds)
	}
	if s.LastCut > 0 {
		clock += soft.Render(fmt.Sprintf("  cut %d", s.LastCut))
	}
	metric := terminal.Line(s.Start.Metric)
	if metric == "" {
		metric = "loss"
	}
	if s.Start.Program != nil {
		if s.Train == nil || s.Start.Program.Tasks > 0 { // tasks have a loss each
			return []string{" " + clock}
		}
		return []string{" " + clock, " " + fmt.Sprintf("%-9s%s", "loss", bold.Render(value(s.Train)))}
	}
	losses := fmt.Sprintf("%-7s  training %s  test %s", metric, value(s.Train), bold.Render(value(s.Test)))
	if room := width - ansi.StringWidth(losses) - 2; room >= 8 && len(s.Tests) > 1 {
		losses += "  " + accent.Render(spark(s.Tests, min(room, 40)))
	}
	lines := []string{" " + clock, " " + losses}
	if left := s.LeftText(); left != "" {
		lines = append(lines, " left     "+terminal.Line(left))
	}
	return lines
}

func value(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

// machineLines returns the stage and a row for each pool in use. On a low screen pools beyond what fits are
// summed up.
func (s picture) machineLines(width, height int) []string {
	transient, reliable := s.Counts()
	stage := "no stage yet"
	if s.Stage != "" {
		stage = "stage " + terminal.Line(s.Stage)
	}
	lines := []string{fmt.Sprintf(" %s  %d transient, %d reliable in training", bold.Render(stage), transient, reliable)}
	switch s.Start.JobKind() {
	case journal.Training:
	case journal.DiLoCo:
		lines[0] = fmt.Sprintf(" %s  %d, averaged by %d reliable", bold.Render("replicas"), transient, reliable)
	default: // programs have nothing reliable and no stages
		lines[0] = fmt.Sprintf(" %s %d", bold.Render("machines"), transient+reliable)
	}
	if text := useText(s.Ledger.UseNow()); text != "" {
		lines = append(lines, s.fit(width, text)...)
	}
	if state, why := s.State(true); status.Active(state) && why != "" {
		if state == status.Waiting {
			why = "waiting: " + why
		}
		lines = append(lines, s.fit(width, bold.Render(terminal.Line(why)))...)
	}
	groups := s.Groups()
	most := max(2, (height-14)/2)
	for i, g := range groups {
		if i == most && len(groups) > most+1 {
			return append(lines, soft.Render(fmt.Sprintf("   and %s more", words.Number(len(groups)-i, "pool"))))
		}
		lines = append(lines, line(g, width))
	}
	return lines
}

func line(g status.Group, width int) string {
	text := fmt.Sprintf("   %3d x %-32s", g.Joined, terminal.Line(words.Pool(g.Pool)))
	if width < narrow {
		text = fmt.Sprintf(" %d x %s", g.Joined, terminal.Line(words.Pool(g.Pool)))
	}
	if g.Price != "" {
		text += fmt.Sprintf(" $%-8s", terminal.Line(g.Price))
	}
	if g.Bid != "" {
		text += soft.Render(fmt.Sprintf(" bid $%s", terminal.Line(g.Bid)))
	}
	if g.Starting > 0 {
		text += good.Render(fmt.Sprintf("  +%d starting", g.Starting))
	}
	if g.Leaving > 0 {
		text += bad.Render(fmt.Sprintf("  -%d leaving", g.Leaving))
	}
	return text
}

func (s picture) moneyLines(now time.Time, width int) []string {
	spent, ok := s.Spent(now)
	if !ok {
		return []string{soft.Render(" no figures about money yet")}
	}
	rate := float64(s.Ledger.Rate(now)) / 1e9
	parts := []string{bold.Render(fmt.Sprintf("$%.3f", rate)) + " per hour", "spent " + bold.Render(spent.Cents())}
	switch saved, known := s.Saved(now); {
	case !known:
	case saved < 0:
		parts = append(parts, "saved so far "+soft.Render(saved.Cents()+" (hours are paid when they begin)"))
	default:
		parts = append(parts, "saved so far "+good.Bold(true).Render(saved.Cents()))
	}
	if !s.Mapping.IsReal() {
		parts = append(parts, soft.Render("replayed: no real money"))
	}
	return s.fit(width, parts...)
}

// eventLines returns the last events, as many as fit; on a narrow screen their reasons are truncated.
func (s picture) eventLines(room, width int) []string {
	var lines []string
	for _, l := range s.Events(room) {
		stamp := soft.Render(l.T.UTC().Format("15:04:05"))
		text := style(l.Kind).Render(terminal.Line(l.Text))
		if l.Why != "" {
			text += soft.Render(" (" + terminal.Line(l.Why) + ")")
		}
		lines = append(lines, ansi.Truncate(" "+stamp+"  "+text, width, "…"))
	}
	return lines
}

func style(k journal.Kind) lipgloss.Style {
	switch k {
	case journal.Notice, journal.Evicted, journal.Failed, journal.Rollback, journal.LaunchFailed, journal.SaveFailed:
		return bad
	case journal.Stage, journal.Switch, journal.Scale, journal.Tune:
		return accent
	case journal.Join, journal.Done:
		return good
	default:
		return lipgloss.NewStyle()
	}
}

// bar returns a progress bar of n cells.
func bar(share float64, n int) string {
	full := int(math.Round(min(1, max(0, share)) * float64(n)))
	return accent.Render(strings.Repeat("█", full)) + soft.Render(strings.Repeat("░", n-full))
}

// spark draws values as blocks of eight heights in at most n cells, each the mean of its share.
func spark(values []float64, n int) string {
	n = min(n, len(values))
	means := make([]float64, n)
	low, high := math.Inf(1), math.Inf(-1)
	for i := range means {
		part := values[i*len(values)/n : (i+1)*len(values)/n]
		for _, v := range part {
			means[i] += v / float64(len(part))
		}
		low, high = min(low, means[i]), max(high, means[i])
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range means {
		height := 0
		if high > low {
			height = int(math.Round((v - low) / (high - low) * float64(len(blocks)-1)))
		}
		b.WriteRune(blocks[height])
	}
	return b.String()
}

// useText summarises machines' current resource use; empty if unknown.
func useText(now []cost.MachineUse) string {
	var cores, gpu float64
	var vcpu, gpus int
	var memory int64
	for _, m := range now {
		cores, vcpu, memory = cores+m.Steps[0].Cores, vcpu+m.VCPU, memory+m.Steps[0].Memory
		if m.Steps[0].GPUMemory > 0 {
			gpu, gpus = gpu+m.Steps[0].GPU, gpus+1
		}
	}
	if len(now) == 0 {
		return ""
	}
	text := fmt.Sprintf("%.1f of %d cores and %s used", cores, vcpu, progress.Size(memory))
	if gpus > 0 {
		text += fmt.Sprintf(", GPUs %.0f %%", 100*gpu/float64(gpus))
	}
	return text
}
