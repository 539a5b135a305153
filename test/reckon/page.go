package reckon

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Page is what a page of a run shows: the text of its cards by their title, and of its tables by their label, without heads.
type Page struct {
	Cards  map[string]string
	Tables map[string][][]string
}

// Differences returns where a page and the figures disagree. Every card and table of a page must be known here, so that
// all displayed figures are checked.
func (p *Page) Differences(f *Figures) (wrong []string) {
	c := checker{f: f, wrong: &wrong}
	for title, text := range p.Cards {
		c.card(title, text)
	}
	if _, there := p.Cards["Cost so far"]; !there && p.Cards["Cost"] == "" && f.Clocks > 0 {
		c.say("there is no card about the cost")
	}
	for _, must := range []string{"On-demand equivalent", "Saving", "Evictions"} {
		if _, there := p.Cards[must]; !there && f.Clocks > 0 {
			c.say("there is no card %q", must)
		}
	}
	for label, rows := range p.Tables {
		c.table(label, rows)
	}
	return wrong
}

type checker struct {
	f     *Figures
	wrong *[]string
}

func (c checker) say(format string, args ...any) {
	*c.wrong = append(*c.wrong, fmt.Sprintf(format, args...))
}

// has requires words in a text.
func (c checker) has(where, text string, words ...string) {
	for _, w := range words {
		if !strings.Contains(text, w) {
			c.say("%s says %q, and not %q", where, text, w)
		}
	}
}

var figure = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

// close requires the first number in a text to equal a value, to the last displayed digit.
func (c checker) close(where, text string, want float64) {
	shown := figure.FindString(text)
	_, digits, _ := strings.Cut(shown, ".")
	if v, err := strconv.ParseFloat(shown, 64); err != nil || math.Abs(v-want) > 0.5001*math.Pow(10, -float64(len(digits))) {
		c.say("%s says %q; want %v", where, text, want)
	}
}

func (c checker) card(title, text string) {
	f := c.f
	switch title {
	case "Cost", "Cost so far":
		c.has(title, text, Cents(f.Total), Cents(f.Spot)+" spot, "+Cents(f.OnDemand)+" reliable")
	case "Time left": // an estimate
	case "On-demand equivalent":
		c.has(title, text, Cents(f.Equivalent), fmt.Sprintf(": %.2f h on", f.EquivalentHours))
	case "Saving":
		words := Cents(f.Saving) + " less"
		if f.Saving < 0 {
			words = Cents(-f.Saving) + " more"
		}
		c.close(title, text, f.Percent)
		c.has(title, text, words)
	case "Evictions":
		c.close(title, text, float64(f.Evictions))
		c.has(title, text, fmt.Sprintf("%d roll-back", f.Rollbacks), fmt.Sprintf(" %d clock", f.Redone))
	case "Per clock":
		c.close(title, text, f.Total/float64(f.Clocks))
	case "Stage":
		reliable, transient := f.Training()
		c.has(title, text, f.Stage, fmt.Sprintf("%d reliable and %d transient in training", reliable, transient))
	case "Machines": // of a run without stages
		reliable, transient := f.Training()
		c.close(title, text, float64(reliable+transient))
		c.has(title, text, fmt.Sprintf("%d reliable and %d transient in training", reliable, transient))
	case "Clock":
		c.close(title, text, float64(f.Clock))
		c.has(title, text, fmt.Sprintf("of %d", f.Goal))
	case "Now per hour":
		c.has(title, text, Cents(f.PerHour))
	default:
		loss := f.Test
		if strings.HasPrefix(title, "Train ") && loss == nil {
			loss = f.Train
		} else if !strings.HasPrefix(title, "Test ") {
			c.say("nobody checks the card %q: %q", title, text)
			return
		}
		c.close(title, text, *loss)
		c.has(title, text, fmt.Sprintf("after %d clocks", f.Clocks))
	}
}

// Training counts machines that take part.
func (f *Figures) Training() (reliable, transient int) {
	for _, m := range f.Machines {
		switch {
		case !m.Training:
		case m.Tier == "reliable":
			reliable++
		default:
			transient++
		}
	}
	return reliable, transient
}

func (c checker) table(label string, rows [][]string) {
	if len(rows) > 0 && len(rows[0]) == 1 {
		rows = rows[1:] // the page mentions earlier ones
	}
	switch {
	case label == "Machines":
		c.machines(rows)
	case label == "Machines now":
		c.now(rows)
	case label == "Pools":
		c.pools(rows)
	case label == "Where time and money went":
		c.money(rows)
	case label == "Price of progress":
		c.progress(rows)
	case strings.HasPrefix(label, "Price of each pool"):
		for i, row := range rows {
			if i+1 == len(rows) || rows[i+1][0] != row[0] {
				c.close("the last price of "+row[0], row[2], c.price(row[0]))
			}
		}
	case strings.HasPrefix(label, "Machines in training"):
		if len(rows) > 0 {
			reliable, transient := c.f.Training()
			last := rows[len(rows)-1]
			c.close("the last transient machines", last[1], float64(transient))
			c.close("the last reliable machines", last[2], float64(reliable))
		}
	case strings.HasSuffix(label, " over time: the figures"):
		c.losses(rows)
	case label == "Use of each machine":
		for _, row := range rows {
			for _, m := range c.f.Machines {
				if m.ID == row[0] {
					c.has("processor of "+m.ID, row[2], fmt.Sprintf("%.2f", m.Cores))
					c.has("memory of "+m.ID, row[3], fmt.Sprintf("%.0f MB", m.Memory/1e6))
				}
			}
		}
	case strings.HasPrefix(label, "Pools considered"), label == "Table of files":
	default:
		c.say("nobody checks the table %q", label)
	}
}

func (c checker) price(short string) float64 {
	for pool, usd := range c.f.Prices {
		if shortName(pool) == short {
			return usd
		}
	}
	return math.NaN()
}

// shortName returns how pages name a pool: type and zone, and the class unless it is spot.
func shortName(pool string) string {
	parts := strings.Split(pool, "/")
	return strings.TrimSuffix(parts[3]+" "+parts[2]+" "+parts[4], " spot")
}

func (c checker) machines(rows [][]string) {
	if len(rows) != len(c.f.Machines) {
		c.say("%d machines are shown of %d", len(rows), len(c.f.Machines))
		return
	}
	for i, m := range c.f.Machines {
		row := rows[i]
		where := "machine " + m.ID
		ended := ""
		if !m.Ended.IsZero() && !m.Ended.After(c.f.AsOf) {
			ended = m.Ended.UTC().Format("Jan 2 15:04:05")
		}
		if row[0] != m.ID || row[1] != shortName(m.Pool) || row[3] != m.Launched.UTC().Format("Jan 2 15:04:05") || row[4] != ended {
			c.say("%s: %q; it was launched %v and ended %v", where, row, m.Launched, m.Ended)
		}
		c.close(where+"'s hours", row[5], m.Hours)
		c.close(where+"'s bill", row[6], m.USD)
		if m.Bid > 0 {
			c.close(where+"'s bid", row[2], m.Bid)
		}
	}
}

func (c checker) now(rows [][]string) {
	training, all := 0, 0
	for _, m := range c.f.Machines {
		if m.Ended.IsZero() {
			all++
		}
		if m.Training {
			training++
		}
	}
	for _, row := range rows {
		for i, n := range row[2:5] {
			v, err := strconv.Atoi(n)
			if err != nil {
				c.say("machines now: %q", row)
			}
			if all -= v; i == 0 {
				training -= v
			}
		}
		if !strings.HasSuffix(row[0], " on-demand") {
			c.close("the price of "+row[0], row[5], c.price(row[0]))
		}
	}
	if training != 0 || all != 0 {
		c.say("machines now: %q; that are %d too few in training and %d in all", rows, training, all)
	}
}

func (c checker) pools(rows [][]string) {
	left := len(c.f.Machines)
	for _, row := range rows {
		n, taken, hours, usd := 0, 0, 0.0, 0.0
		for _, m := range c.f.Machines {
			if shortName(m.Pool) != row[0] {
				continue
			}
			n, hours, usd = n+1, hours+m.Hours, usd+m.USD
			if m.evicted && !m.Ended.After(c.f.AsOf) {
				taken++
			}
		}
		left -= n
		c.close(row[0]+": machines", row[1], float64(n))
		c.close(row[0]+": evicted", row[2], float64(taken))
		c.close(row[0]+": hours", row[3], hours)
		c.has(row[0]+": paid", row[5], Cents(usd))
		if hours > 0 && row[6] != "-" { // most of a paid hour was not used
			c.close(row[0]+": per hour", row[6], usd/hours)
		}
	}
	if left != 0 {
		c.say("%d machines are in no pool that is shown", left)
	}
}

// money requires the parts to add up, and the wait from launch to join to be that of the journal.
func (c checker) money(rows [][]string) {
	hours, usd := 0.0, 0.0
	for _, row := range rows {
		h, paid := number(row[1]), number(strings.TrimPrefix(row[2], "$"))
		if row[0] == "start-up idle" {
			c.close(row[0], "0"+row[1], c.f.StartupHours)
		}
		if row[0] != "free" { // it is part of the others
			hours, usd = hours+h, usd+paid
		}
	}
	if math.Abs(hours-c.f.MachineHours) > 0.03 || math.Abs(usd-c.f.Total) > 0.04 {
		c.say("time and money add up to %.2f h and $%.2f; want %.4f h and $%.4f", hours, usd, c.f.MachineHours, c.f.Total)
	}
}

func (c checker) progress(rows [][]string) {
	for _, row := range rows {
		limit := number(row[0]) + 0.00005 // as shown
		for _, p := range c.f.Tests {
			if p.Loss <= limit {
				c.close("the price of "+row[0], row[1], p.USD)
				c.close("the clock of "+row[0], row[2], float64(p.Clock))
				break
			}
		}
	}
}

// losses requires every test loss of the journal in its row, with its clock.
func (c checker) losses(rows [][]string) {
	at := 0
	for _, row := range rows {
		if row[4] == "" {
			continue
		}
		for at < len(c.f.Tests) && strconv.FormatInt(c.f.Tests[at].Clock, 10) != row[0] {
			at++
		}
		if at == len(c.f.Tests) {
			c.say("the test loss of clock %s is not in the journal", row[0])
			return
		}
		c.close("the loss of clock "+row[0], row[4], c.f.Tests[at].Loss)
		c.close("the price of clock "+row[0], row[2], c.f.Tests[at].USD)
		at++
	}
}
