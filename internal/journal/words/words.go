// Package words turns journal entries into sentences, for people who watch a run or read its report. It groups what happened to
// many machines at once into one line. It decides nothing, and knows no terminal.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Line is one event, for Count machines of a pool if it is about machines.
type Line struct {
	T         time.Time
	Kind      journal.Kind
	Text      string // without the reason
	Why       string
	Pool      string
	Instances []string
	Entry     journal.Entry // the first of the group
}

// String returns the text with its reason.
func (l Line) String() string {
	if l.Why == "" {
		return l.Text
	}
	return l.Text + " (" + l.Why + ")"
}

// Important reports whether a line is worth a person's attention on its own. Clocks, moves, prices and routine cuts are too many; they show
// in figures instead.
func Important(e journal.Entry) bool {
	switch e.Kind {
	case journal.Cut:
		return e.Why != ""
	case journal.Start, journal.Plan, journal.Launch, journal.LaunchFailed, journal.Notice, journal.Evicted,
		journal.Failed, journal.Terminated, journal.Join, journal.Leave, journal.Stage, journal.Rollback,
		journal.Switch, journal.Scale, journal.Tune, journal.Budget, journal.Flush, journal.Export, journal.Done, journal.SaveFailed, journal.TakeOver, journal.Silence, journal.Provider,
		journal.ProgramStart, journal.ProgramSaveFailed, journal.ProgramEnd:
		return true
	case journal.Checkpoint:
		return e.Why != "" // it has a further failure
	case journal.ProgramStep:
		return e.Why != "" // it repeats steps
	default:
		return false
	}
}

// aboutMachines reports whether lines of this kind come once per machine, so that similar ones can be merged.
func aboutMachines(k journal.Kind) bool {
	switch k {
	case journal.Launch, journal.Notice, journal.Evicted, journal.Failed, journal.Terminated, journal.Join, journal.Leave:
		return true
	default:
		return false
	}
}

// text returns an entry's text for n machines.
func text(e journal.Entry, n int) string {
	switch e.Kind {
	case journal.Start:
		return startText(e)
	case journal.Plan:
		return planText(e)
	case journal.LaunchFailed:
		text := fmt.Sprintf("could not launch %sof %s", countOf(e.Count), Pool(e.Pool))
		if len(e.Or) > 0 {
			text += " or " + Number(len(e.Or), "other pool")
		}
		return text
	case journal.Stage:
		return stageText(e)
	case journal.Cut:
		return fmt.Sprintf("cut at clock %d committed in %.1f s", e.Clock, e.Seconds)
	case journal.Checkpoint:
		return fmt.Sprintf("checkpoint at clock %d saved in %.1f s", e.Clock, e.Seconds)
	case journal.SaveFailed:
		return fmt.Sprintf("no checkpoint could be saved at clock %d; training continues", e.Clock)
	case journal.TakeOver:
		if e.Clock == 0 {
			return fmt.Sprintf("a new controller has taken over %s", Number(e.Count, "machine"))
		}
		return fmt.Sprintf("a new controller has taken over %s at clock %d", Number(e.Count, "machine"), e.Clock)
	case journal.Rollback:
		return fmt.Sprintf("roll-back to the cut at clock %d: %s to do again", e.Clock, Number(int(e.LostClocks), "clock"))
	case journal.Switch:
		return switchText(e)
	case journal.Flush:
		return fmt.Sprintf("all servers go in %.1f s", e.Seconds)
	case journal.Scale:
		return scaleText(e)
	case journal.Tune:
		return tuneText(e)
	case journal.Silence:
		return silenceText(e)
	case journal.Provider:
		return providerText(e)
	case journal.Budget:
		return budgetText(e)
	case journal.Export:
		return exportText(e)
	case journal.Done:
		return doneText(e)
	case journal.ProgramStart, journal.ProgramStep, journal.ProgramSaveFailed, journal.ProgramEnd, journal.ProgramDropped:
		return programText(e)
	default:
		return machinesText(e, n)
	}
}

func programText(e journal.Entry) string {
	at := ""
	if e.Clock > 0 {
		at = fmt.Sprintf(" at step %d", e.Clock)
	}
	switch {
	case e.Kind == journal.ProgramStart:
		return fmt.Sprintf("%s runs on %s%s", e.Program, e.Instance, at)
	case e.Kind == journal.ProgramStep:
		return e.Program + " repeats steps" + at
	case e.Kind == journal.ProgramDropped:
		return e.Program + " is dropped" + at
	case e.Kind == journal.ProgramSaveFailed:
		return "the state of " + e.Program + " could not be saved; the one before counts"
	case e.Outcome == journal.Finished:
		return e.Program + " is done" + at
	case e.Outcome == journal.Failure:
		return e.Program + " failed" + at
	case e.Outcome == journal.Cancelled:
		return e.Program + " is cancelled" + at
	case e.Outcome == journal.Stopped:
		return e.Program + " is stopped" + at + " with its state saved"
	}
	return e.Program + " is lost" + at
}

func budgetText(e journal.Entry) string {
	switch e.To {
	case journal.Paused:
		return "paused: transient machines are given up, and the reliable ones train on"
	case journal.GoesOn:
		return "transient machines are bought again"
	}
	return "budget warning"
}

func silenceText(e journal.Entry) string {
	switch e.To {
	case journal.Waiting:
		return "most machines are silent: they are waited for"
	case journal.GivenUp:
		return "silent machines are given up"
	}
	return "machines are heard again"
}

func providerText(e journal.Entry) string {
	switch e.To {
	case journal.Waiting:
		return "the provider refuses calls or does not answer: trying again"
	case journal.GivenUp:
		return "the run leaves machines that cost money"
	}
	return "the provider answers again"
}

func machinesText(e journal.Entry, n int) string {
	who := machines(e, n)
	one := n == 1
	switch e.Kind {
	case journal.Launch:
		if e.Bid != "" && e.Bid != "0" {
			return fmt.Sprintf("launched %s, bid $%s", who, e.Bid)
		}
		return "launched " + who
	case journal.Notice:
		if e.Deadline == nil {
			return "raised risk of eviction for " + who
		}
		return "eviction notice for " + who
	case journal.Evicted:
		return who + pick(one, " was evicted", " were evicted")
	case journal.Failed:
		return who + pick(one, " is gone without warning", " are gone without warning")
	case journal.Terminated:
		return "terminated " + who
	case journal.Release:
		return who + pick(one, " works", " work") + " to the end of what is paid"
	case journal.Join:
		return who + pick(one, " joins", " join")
	case journal.Leave:
		return who + pick(one, " leaves", " leave")
	default:
		return string(e.Kind)
	}
}

// machines names one machine, or describes how many of which tier and pool there are.
func machines(e journal.Entry, n int) string {
	tier := e.Tier
	if tier != "" {
		tier += " "
	}
	in := ""
	if e.Pool != "" {
		in = " of " + Pool(e.Pool)
	}
	if n == 1 {
		return tier + "machine " + e.Instance + in
	}
	return fmt.Sprintf("%d %smachines%s", n, tier, in)
}

func startText(e journal.Entry) string {
	d, err := e.StartDetails()
	if err != nil {
		return "start"
	}
	return fmt.Sprintf("start of %s: %s, rules %s, seed %d", d.Name, d.App, d.Rules, d.Seed)
}

func planText(e journal.Entry) string {
	d, err := e.PlanDetails()
	if err != nil {
		return "plan"
	}
	var chosen []string
	for _, p := range d.Pools {
		if p.Chosen {
			chosen = append(chosen, fmt.Sprintf("%d x %s", p.Count, Pool(p.Pool)))
		}
	}
	if len(chosen) == 0 {
		chosen = []string{"no transient machines"}
	}
	return fmt.Sprintf("plan: %s; expected $%.2f (%.2f to %.2f), %s", strings.Join(chosen, ", "),
		d.Cost.Mid, d.Cost.Low, d.Cost.High, Duration(d.Runtime.Mid))
}

func stageText(e journal.Entry) string {
	change := "stage " + e.To
	if e.From != "" && e.From != "0" {
		change = "stage " + e.From + " -> " + e.To
	}
	return fmt.Sprintf("%s: %d transient, %d reliable", change, e.Transient, e.Reliable)
}

// switchText returns the figures if the reason, which has them, is missing.
func switchText(e journal.Entry) string {
	if e.Why != "" {
		return fmt.Sprintf("switch from %s to %s", Pool(e.From), Pool(e.To))
	}
	return fmt.Sprintf("switch from %s, MTTF %s, to %s, MTTF %s",
		Pool(e.From), Duration(e.FromMTTF), Pool(e.To), Duration(e.ToMTTF))
}

func scaleText(e journal.Entry) string {
	if e.From == e.To {
		return fmt.Sprintf("scaled in %.1f s: %s", e.Seconds, e.To)
	}
	return fmt.Sprintf("asked for %s, in place of %s", e.To, e.From)
}

func tuneText(e journal.Entry) string {
	switch {
	case e.To == "":
		return "settings as the stage has them"
	case e.From == e.To:
		return "settings stay: " + e.To
	case e.From == "":
		return "settings: " + e.To
	}
	return fmt.Sprintf("settings: %s, in place of %s", e.To, e.From)
}

func exportText(e journal.Entry) string {
	if e.Model == "" {
		return "the model could not be saved"
	}
	s := fmt.Sprintf("saved the model of clock %d as %s", e.Clock, e.Model)
	if e.TestLoss != nil {
		s += fmt.Sprintf(", test loss %.4f", *e.TestLoss)
	}
	return s
}

func doneText(e journal.Entry) string {
	s := "done: " + e.Outcome
	if e.Clock > 0 {
		s += fmt.Sprintf(" at clock %d", e.Clock)
	}
	if e.TestLoss != nil {
		s += fmt.Sprintf(", test loss %.4g", *e.TestLoss)
	}
	return s
}

// Pool returns a pool's short name: "c3.xlarge us-west-1a", and whether it is an on-demand one.
func Pool(pool string) string {
	parts := strings.Split(pool, "/")
	if len(parts) != 5 {
		return pool
	}
	short := parts[3] + " " + parts[2]
	if parts[4] != "spot" {
		short += " " + parts[4]
	}
	return short
}

// Type returns a pool's type and terms, without its place: "c3.xlarge on-demand".
func Type(pool string) string {
	parts := strings.Split(pool, "/")
	if len(parts) != 5 {
		return pool
	}
	return parts[3] + " " + parts[4]
}

// Duration formats market seconds in a suitable unit: "45 s", "12 min", "9.0 h", "4.2 d"; "unknown" for none.
func Duration(seconds float64) string {
	switch {
	case !(seconds > 0):
		return "unknown"
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 72*3600:
		return fmt.Sprintf("%.1f h", seconds/3600)
	default:
		return fmt.Sprintf("%.1f d", seconds/86400)
	}
}

// Ended returns why a run has ended; of a stop the journal has only the source.
func Ended(why string) string {
	switch source, _, _ := strings.Cut(why, ":"); source {
	case "Ctrl-C", "SIGTERM", "SIGHUP", "tierml stop", "the dashboard":
		return "stopped by " + why
	case "a user asked":
		return "stopped by a user"
	}
	return why
}

// Number returns "1 clock", "2 clocks".
func Number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func countOf(n int) string {
	if n == 0 {
		return "machines "
	}
	return Number(n, "machine") + " "
}

func pick(one bool, singular, plural string) string {
	if one {
		return singular
	}
	return plural
}
