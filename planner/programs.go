package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/terminal"
)

// Program is what a plan says about a program of the user's own.
type Program struct {
	Tasks, Count int
	Elastic      bool    // only the rank on a lost machine restarts
	Least        int     // machines with which a gang starts
	Trials       bool    // the tasks are trials of a sweep
	Share        float64 // of their steps that are done, as some trials are dropped after feedback
	Hours        float64 // of one program on a machine of type On, in market time
	On           string
	GPUs         string  // of the machines that may be bought; empty = none is requested
	Pretended    bool    // machines have the type and its price, but not the device
	Basis        string  // of Hours
	Cores        float64 // processor time per time that it used in the last run, in cores; 0 = unknown
	Wanted       float64 // what it would have used if no thread had waited for a core
	Filled       bool    // those were all cores of its machine, two or more
	Single       bool    // those were the one core of its machine
	Memory       int64   // the maximum memory of one of its processes then, in bytes
	Image        string  // of the container; empty = none
	Workdir      Workdir
	Setup        bool
	Secrets      int
	Store        string
	State        string        // its folder; empty = it has none
	Every        time.Duration // market time
	// StateBytes is the size of one program's state on one machine; 0 = unknown. Rate is the speed of its transfer, in bytes per second.
	StateBytes int64
	Rate       float64
	Notice     time.Duration // wall clock
	// Disk is the space for state on a machine's disk, in bytes; 0 = unknown.
	Disk int64
}

func (p *Program) unit() string {
	if p.Trials {
		return "trial"
	}
	return "task"
}

// Workdir is a folder that is sent to each machine; Packed is its compressed size.
type Workdir struct {
	Path          string
	Files         int
	Bytes, Packed int64
	// Largest are the largest files sent; Ignored is what is left out because a .gitignore names it.
	Largest, Ignored string
}

// flush returns how long a state takes to reach the store, in wall-clock time.
func (p *Program) flush() time.Duration {
	return time.Duration(float64(p.StateBytes) / p.Rate * float64(time.Second))
}

// tooLarge says that a state cannot be saved within an eviction notice; empty = it can, or that is unknown.
func (p *Program) tooLarge() string {
	if p.State == "" || p.StateBytes == 0 || p.flush() < p.Notice {
		return ""
	}
	return fmt.Sprintf("the state in %s, %s, takes about %s to the store if all of it has changed, longer than the notice of %s: what does not fit is lost at an "+
		"eviction, up to %s of work; mirror more often, so that less is left to send", p.State, progress.Size(p.StateBytes), p.flush().Round(time.Second),
		p.Notice, short(p.Every))
}

// Overflow says that a state does not fit on a machine's disk; empty = it does, or that is unknown.
func (p *Program) Overflow() string {
	if p.Disk == 0 || p.StateBytes <= p.Disk {
		return ""
	}
	return fmt.Sprintf("the state in %s was %s in the last run, and a machine's disk has %s", p.State, progress.Size(p.StateBytes), progress.Size(p.Disk))
}

// beyondMemory says that a state is larger than the memory of machines that may be bought; empty = it is not, or that is unknown.
func (p *Program) beyondMemory(pools []bidding.Candidate) string {
	var small []string
	for _, c := range pools {
		if t := c.Type; t.MemoryMiB > 0 && p.StateBytes > t.MemoryMiB<<20 && !slices.Contains(small, t.Name) {
			small = append(small, t.Name)
		}
	}
	if len(small) == 0 {
		return ""
	}
	return fmt.Sprintf("the state in %s, %s, is larger than the memory of %s: a program that loads all of it at once is killed there", p.State, progress.Size(p.StateBytes),
		strings.Join(small, ", "))
}

// S3's published prices in US East and West (Oregon), 2026: per 1000 requests that write, and per GB and month.
const (
	writes1000 = 0.005
	gbMonth    = 0.023
)

// mirroring returns the maximum cost of mirroring in a store that charges for requests, in dollars per hour of a program.
func (p *Program) mirroring() (usd float64, known bool) {
	if !strings.HasPrefix(p.Store, "s3://") || p.StateBytes == 0 || p.Every <= 0 {
		return 0, false
	}
	const chunk = 4 << 20 // program/mirror's
	perSave := float64(p.StateBytes/chunk + 2)
	saves := time.Hour.Seconds() / p.Every.Seconds()
	const hoursOfAMonth = 730
	return perSave*saves*writes1000/1000 + 2*float64(p.StateBytes)/1e9*gbMonth/hoursOfAMonth, true
}

// fewCores is the number of cores in use below which the smallest machines do as much as others.
const fewCores = 2

// writeProgram says what is run, and what is sent where.
func (p *Plan) writeProgram(b *terminal.Text, s Style) {
	in := p.Input.Program
	if in == nil {
		return
	}
	row := func(name, text string) { s.labelled(b, labels, name, text) }
	what := fmt.Sprintf("one on %s", words.Number(in.Count, "machine"))
	if in.Least > 0 && in.Least < in.Count {
		what += fmt.Sprintf(", starting on %d when no more are available", in.Least)
	}
	if in.Elastic {
		what += ", of which a lost one is replaced while the others run on"
	}
	if in.Tasks > 0 {
		what = fmt.Sprintf("%s, %d at a time", words.Number(in.Tasks, in.unit()), min(in.Count, in.Tasks))
	}
	if in.Trials && in.Share < 1 {
		what += fmt.Sprintf(", of which feedback leaves %.0f%% of the steps", 100*in.Share)
	}
	row("Program", fmt.Sprintf("%s; each takes %s on one %s, %s", what, short(time.Duration(in.Hours*float64(time.Hour))), in.On, in.Basis))
	if in.Cores > 0 {
		text := fmt.Sprintf("%.2g cores' worth of processor time, at most %s of memory in one process, in the last run", in.Cores, progress.Size(in.Memory))
		if in.Filled {
			text += ": all that it could get"
		} else if in.Single {
			text += ": all of the one core that its machine had; if it has several threads, name a type with more vCPUs to compare"
		} else if in.Cores < fewCores {
			text += ": more vCPUs would not make it faster"
		}
		if more := in.Wanted - in.Cores; more >= .5 {
			text += fmt.Sprintf("; its threads waited for %.1f cores more", more)
		}
		row("Uses", text)
	}
	if in.GPUs != "" {
		text := in.GPUs
		if in.Pretended {
			text += "; machines of the local cloud are processes of this computer: they have the type and its price, and no GPU but its own"
		}
		row("GPUs", text)
	}
	if in.Image != "" {
		row("Image", in.Image+"; each machine gets it once, by its own Docker or Podman")
	}
	if w := in.Workdir; w.Path != "" {
		text := fmt.Sprintf("%s in %s of %s go to %s, and once to each machine (%s packed)", progress.Size(w.Bytes), words.Number(w.Files, "file"), w.Path, in.Store, progress.Size(w.Packed))
		if w.Largest != "" {
			text += "; the largest: " + terminal.Line(w.Largest)
		}
		if w.Ignored != "" {
			text += "; left behind, as a .gitignore names it: " + terminal.Line(w.Ignored) + " (a .tierignore would decide instead)"
		}
		row("Workdir", text)
	}
	switch {
	case in.State == "":
		row("State", "none: a program begins anew when its machine goes")
	case in.StateBytes == 0:
		row("State", fmt.Sprintf("%s is mirrored every %s to %s; how large it is the first run shows", in.State, short(in.Every), in.Store))
	default:
		text := fmt.Sprintf("%s, %s, is mirrored every %s to %s: at most %s a time", in.State, progress.Size(in.StateBytes), short(in.Every), in.Store,
			in.flush().Round(100*time.Millisecond))
		if usd, known := in.mirroring(); known {
			text += fmt.Sprintf(", at most $%.4f an hour at S3's prices", usd)
		}
		row("State", text)
	}
	b.WriteString("\n")
}
