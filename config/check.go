package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// checker finds values that are well-formed but impossible, and fills in what follows from other fields.
type checker struct {
	job    *Job
	dir    string          // of the job file; paths are relative to it
	meant  map[string]bool // see decoder
	faults Faults
	more   int // faults that are not reported
	// foreign: set for submitted jobs.
	foreign *Foreign
}

func (c *checker) fault(field, problem, instead string) {
	if len(c.faults) == mostFaults {
		c.more++
		return
	}
	if c.broken(field) || c.meant[field] {
		return // the missing value has already been reported
	}
	c.faults = append(c.faults, c.job.Fault(field, problem, instead)...)
}

// broken reports whether a mistake in the field, or around it, has been reported.
func (c *checker) broken(field string) bool {
	return slices.ContainsFunc(c.faults, func(f Fault) bool {
		return f.Field == field || f.Field != "" && strings.HasPrefix(field, f.Field+".") || strings.HasPrefix(field, f.Field+"[")
	})
}

// faultyBelow reports whether a mistake in some part of the field has been reported.
func (c *checker) faultyBelow(field string) bool {
	return slices.ContainsFunc(c.faults, func(f Fault) bool {
		return strings.HasPrefix(f.Field, field+".") || strings.HasPrefix(f.Field, field+"[")
	})
}

// written reports whether the file mentions the field.
func (c *checker) written(field string) bool { return c.job.Written(field) }

// Written reports whether the job file has a field, such as "train.splits".
func (j *Job) Written(field string) bool { _, ok := j.positions[field]; return ok }

// atLeast rejects a number below a minimum.
func (c *checker) atLeast(field string, value, minimum int) {
	if value < minimum && c.written(field) {
		c.fault(field, fmt.Sprintf("%d is too small", value), fmt.Sprintf("write %d or more", minimum))
	}
}

// positiveTime rejects a time that is not positive.
func (c *checker) positiveTime(field string, d time.Duration) {
	if d <= 0 && c.written(field) {
		c.fault(field, "must be above zero", "write a duration, such as 24h, or remove the line")
	}
}

// upTo rejects a number above a maximum.
func (c *checker) upTo(field string, value, maximum int) {
	if value > maximum {
		c.fault(field, fmt.Sprintf("%d is too large", value), fmt.Sprintf("write %d or less", maximum))
	}
}

// Upper bounds, far above any real job's.
const (
	mostMachines = 100_000
	mostSaved    = 1_000_000
)

// bounds limits the numbers that determine memory allocation.
func (c *checker) bounds() {
	j := c.job
	c.upTo("resources.count", j.Resources.Count.Most, mostMachines)
	c.upTo("resources.vcpu", j.Resources.VCPU, 256*mostMachines)
	c.upTo("reliable.count", j.Reliable.Count, mostMachines)
	c.upTo("train.splits", j.Train.Splits, ps.MaxSplits)
	c.upTo("train.partitions", j.Train.Partitions, ps.MaxPartitions)
	c.upTo("train.staleness", j.Train.Staleness, int(ps.MaxStaleness))
	c.upTo("checkpoint.keep", j.Checkpoint.Keep, mostSaved)
}

// oneOf rejects a name that does not exist.
func (c *checker) oneOf(field, value string, names ...string) {
	if value == "" || slices.Contains(names, value) {
		return
	}
	instead := "write " + orList(names)
	if near := spelling.Nearest(value, names); near != "" {
		instead = "did you mean " + near + "?"
		if len(names) > 1 {
			instead += " There is " + orList(names)
		}
	}
	c.fault(field, fmt.Sprintf("%q does not exist", value), instead)
}

var jobName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

func (c *checker) check() {
	j := c.job
	if p, known := ProviderNamed(j.Cloud); c.written("hosts") && (known && !p.SharesHosts || j.Cloud == CloudNone) { // other requirements of that cloud do not matter
		c.fault("cloud", "hosts that jobs share cannot be bought there", "write "+orList(hostClouds()))
		return
	}
	if j.Name != "" && !jobName().MatchString(j.Name) {
		c.fault("name", fmt.Sprintf("%q cannot be a name", j.Name),
			"use 1 to 63 letters, digits and dashes, starting with a letter or digit")
	}
	c.work()
	if c.cloud() {
		c.provided()
		c.resources()
		c.sharing()
		c.reliable()
		c.limits()
		c.spending()
		c.alerts()
		c.checkpoint()
		c.savings()
		c.local()
		c.tuned()
	}
	c.bounds()
	c.stages()
}

// cloud checks where machines come from; false if there is none and nothing to report.
func (c *checker) cloud() bool {
	j := c.job
	switch j.Cloud {
	case CloudLocal:
		setDefault(&j.Security, SecurityPlain, c.written("security"))
		c.oneOf("security", j.Security, SecurityTLS, SecurityPlain)
		c.provider()
		setDefault(&j.OrphanAfter, 10*time.Second, c.written("orphan_after"))
		setDefault(&j.Heartbeat, 500*time.Millisecond, c.written("heartbeat"))
		setDefault(&j.DeadAfter, 3*time.Second, c.written("dead_after"))
		setDefault(&j.Checkpoint.Every, j.savesEvery(), c.written("checkpoint.every") || c.written("checkpoint.every_clocks"))
	case CloudNone:
		for _, field := range append(RealClouds(), "provider", "resources", "reliable", "local", "budget", "limits", "alerts", "checkpoint", "security", "tune") {
			if c.written(field) {
				c.fault(field, "has no use with cloud: none, which buys no machines", "remove it, or write cloud: local")
			}
		}
		return false
	default:
		if _, known := ProviderNamed(j.Cloud); !known {
			c.unknownCloud()
			break
		}
		c.real()
	}
	return true
}

func setDefault[T any](target *T, value T, written bool) {
	if !written {
		*target = value
	}
}

func (c *checker) resources() {
	r := &c.job.Resources
	if c.written("resources.count") && c.written("resources.vcpu") {
		c.fault("resources.vcpu", "count and vcpu are both given", "keep one: they are two ways to say how much")
	}
	c.atLeast("resources.count", r.Count.Least, 1)
	c.atLeast("resources.vcpu", r.VCPU, 1)
	c.gpus()
	if len(r.AnyOf) == 0 && c.written("resources.any_of") {
		c.fault("resources.any_of", "names no machine that will do",
			"add `any_of: [{type: c3.xlarge}]`, or a need such as `any_of: [{cpus: 4+, memory: 7GB+}]`, or remove the line")
	}
	for i, m := range r.AnyOf {
		c.machine(fmt.Sprintf("resources.any_of[%d]", i), m)
		if slices.Contains(r.AnyOf[:i], m) {
			c.fault(fmt.Sprintf("resources.any_of[%d]", i), "is the same as an entry before it", "remove it")
		}
	}
	c.positive("resources.max_price", r.MaxPrice)
	c.allocation()
	for i, zone := range r.Zones {
		c.zone(fmt.Sprintf("resources.zones[%d]", i), zone)
		if slices.Contains(r.Zones[:i], zone) {
			c.fault(fmt.Sprintf("resources.zones[%d]", i), fmt.Sprintf("%s is there twice", zone), "remove one")
		}
	}
}

var zoneName = pattern.Of(`^[a-z]+(-[a-z]+)+-?[0-9]+(-?[a-z])$`)

func (c *checker) zone(field, zone string) {
	if problem, instead := zoneMistake(zone); problem != "" {
		c.fault(field, problem, instead)
	}
}

// zoneMistake returns what is wrong with the name of a zone, and what to write; empty = nothing.
func zoneMistake(zone string) (problem, instead string) {
	switch {
	case zone == "" || zoneName().MatchString(zone):
		return "", ""
	case zoneName().MatchString(zone + "a"):
		return fmt.Sprintf("%q is a region, not a zone", zone), fmt.Sprintf("write its zones, such as %sa", zone)
	}
	return fmt.Sprintf("%q is not a zone", zone), "write a zone, such as us-west-1a"
}

func (c *checker) machine(path string, m Machine) {
	need := m.CPUs != (CPUs{}) || m.Memory != (Memory{}) || m.Arch != "" || m.GPU.Count > 0
	switch {
	case m.Type != "" && need:
		c.fault(path, "has a type and a need", "keep type, or keep cpus, memory, arch and gpu")
	case m.Type == "" && !need && !c.faultyBelow(path):
		c.fault(path, "names no machine", "write type: c3.xlarge, or a need such as cpus: 4+")
	}
	if m.Arch == "amd64" || m.Arch == "x86-64" {
		c.fault(path+".arch", fmt.Sprintf("%q is called x86_64 here", m.Arch), "write x86_64")
	}
	c.oneOf(path+".arch", m.Arch, "x86_64", "arm64")
	c.positive(path+".max_price", m.MaxPrice)
}

func (c *checker) positive(field string, price market.USD) {
	if price == 0 && c.written(field) {
		c.fault(field, "no machine is free", "write a price above zero, or remove the line")
	}
}

func (c *checker) reliable() {
	if c.job.Reliable.Type == Auto {
		c.job.Reliable.Type = ""
	}
	r := c.job.Reliable
	c.atLeast("reliable.count", r.Count, 0)
	if k := c.job.Checkpoint; r.Count == 0 && k.Every == 0 && k.EveryClocks == 0 && !c.job.Restarts() && c.job.Cloud != CloudNone {
		c.fault("reliable.count", "0 leaves the job on machines that can be taken, and there are no checkpoints to go back to",
			"write count: 1, or say in checkpoint: how often to save, such as {to: s3://BUCKET/PREFIX, every: 5m}")
	}
	if r.Count == 0 && !c.job.Restarts() {
		for _, field := range []string{"reliable.type", "reliable.zone", "reliable.bandwidth", "reliable.committed"} {
			if c.written(field) {
				c.fault(field, "has no effect with count: 0, where machines of resources serve", "remove it, or write count: 1")
			}
		}
	}
	c.positive("reliable.committed", r.Committed)
	if r.Committed > 0 && r.Auto() && !c.faultyBelow("reliable.type") {
		c.fault("reliable.committed", "names no machine type: a commitment covers machines of one", "write reliable.type, such as m5.large")
	}
	c.zone("reliable.zone", r.Zone)
	zones := c.job.Resources.Zones
	if r.Zone != "" && len(zones) > 0 && !c.faultyBelow("resources.zones") && !slices.Contains(zones, r.Zone) {
		c.fault("reliable.zone", fmt.Sprintf("%s is not in resources.zones", r.Zone), "write "+orList(zones))
	}
}

func (c *checker) limits() {
	j := c.job
	c.oneOf("policy", j.Policy, Policies()...)
	c.oneOf("prefer", j.Prefer, PreferCost, PreferBalanced, PreferTime)
	if j.ValueOfTime == 0 && c.written("value_of_time") {
		c.fault("value_of_time", "must be above zero", "write what an hour is worth, such as $2, or prefer: cost")
	}
	if j.Prefer != "" && j.ValueOfTime > 0 {
		c.fault("value_of_time", "prefer says already what an hour is worth", "remove one of them")
	}
	c.positive("budget", j.Budget)
	for field, d := range map[string]time.Duration{
		"max_duration": j.MaxDuration, "orphan_after": j.OrphanAfter, "heartbeat": j.Heartbeat, "dead_after": j.DeadAfter,
	} {
		c.positiveTime(field, d)
	}
	if j.DeadAfter < 2*j.Heartbeat && j.Heartbeat > 0 && j.DeadAfter > 0 {
		c.fault("dead_after", fmt.Sprintf("%v is less than two heartbeats of %v", j.DeadAfter, j.Heartbeat),
			"write at least "+(2*j.Heartbeat).String()+", or a shorter heartbeat")
	}
	if start := j.Local.Start; !j.Deadline.IsZero() && !start.IsZero() && !j.Deadline.After(start) {
		c.fault("deadline", fmt.Sprintf("%s is not after the start, %s", j.Deadline.Format(time.RFC3339), start.Format(time.RFC3339)),
			"write a market time after local.start, such as "+start.Add(24*time.Hour).Format(time.RFC3339))
	}
}

func (c *checker) spending() {
	l := &c.job.Limits
	c.positive("limits.per_hour", l.PerHour)
	if l.OverHour == LimitPause {
		l.OverHour = LimitShrink
	}
	c.oneOf("limits.over_hour", l.OverHour, LimitWarn, LimitShrink, LimitStop)
	c.oneOf("limits.over_budget", l.OverBudget, LimitWarn, LimitStop)
}

func (c *checker) alerts() {
	a := &c.job.Alerts
	c.path("alerts.url_file", &a.URLFile)
	c.path("alerts.secret_file", &a.SecretFile)
	switch {
	case a.URL != "" && a.URLFile != "":
		c.fault("alerts.url_file", "url and url_file are both given", "keep one")
	case a.URL != "" && !strings.HasPrefix(a.URL, "https://") && !strings.HasPrefix(a.URL, "http://"):
		c.fault("alerts.url", "is not a web address", "write https://example.com/hook")
	}
}

func (c *checker) checkpoint() {
	p := c.job.Checkpoint
	for _, wrong := range p.mistakes() {
		c.fault("checkpoint."+wrong.field, wrong.problem, wrong.instead)
	}
	for field, d := range map[string]time.Duration{"checkpoint.save": p.Save, "checkpoint.restart": p.Restart} {
		if d <= 0 && c.written(field) {
			c.fault(field, "must be above zero", "write a duration, such as 30s, or remove the line")
		}
	}
}

func (c *checker) train() {
	t := &c.job.Train
	if _, isFile := c.place("train.data", &t.Data); isFile {
		c.path("train.data", &t.Data)
	}
	c.atLeast("train.clocks", t.Clocks, 1)
	c.atLeast("train.splits", t.Splits, 1)
	c.atLeast("train.partitions", t.Partitions, 1)
	c.atLeast("train.evaluate_every", t.EvaluateEvery, 1)
	if t.Holdout >= 1 {
		c.fault("train.holdout", fmt.Sprintf("%v leaves nothing to train on", t.Holdout), "write a share from 0 to below 1, such as 0.2")
	}
	c.stop(t.Stop)
	c.consistency()
}

func (c *checker) consistency() {
	t := &c.job.Train
	c.oneOf("train.consistency", t.Consistency, BSP, SSP, ASP)
	switch written := c.written("train.consistency"); {
	case !written && t.Staleness > 0:
		t.Consistency = SSP
	case t.Consistency == SSP && t.Staleness == 0 && c.written("train.staleness"):
		t.Consistency = BSP // the same
	case t.Consistency == SSP && t.Staleness == 0:
		t.Staleness = 1
	case t.Consistency != SSP && t.Staleness > 0:
		c.fault("train.staleness", fmt.Sprintf("has no use with consistency: %s", t.Consistency), "remove it, or write consistency: ssp")
	}
	if t.Consistency == BSP {
		return
	}
	setDefault(&t.Deterministic, false, c.written("train.deterministic"))
	if t.Deterministic {
		c.fault("train.deterministic", "needs consistency: bsp: with stale reads the result depends on who is faster",
			"write deterministic: false, or consistency: bsp")
	}
}

func (c *checker) stop(s Stop) {
	if s.MinImprovement >= 1 {
		c.fault("train.stop.min_improvement", fmt.Sprintf("%v cannot be reached", s.MinImprovement), "write a share from 0 to below 1, such as 0.001")
	}
	if s.Patience > 0 && s.MinImprovement == 0 {
		c.fault("train.stop.patience", "has no use without min_improvement", "add min_improvement: 0.001, or remove the line")
	}
}

func (c *checker) stages() {
	if s := c.job.Stages; s.ThreeAbove < s.TwoAbove {
		c.fault("stages.three_above", fmt.Sprintf("%v is below two_above, %v", s.ThreeAbove, s.TwoAbove),
			"write a ratio at or above two_above")
	}
	if s := c.job.Stages; s.ServerBytes < 0 {
		c.fault("stages.server_bytes", "is negative", "write a number of bytes, or 0 for half of the transient machines always")
	}
}

func (c *checker) savings() {
	k := &c.job.Checkpoint
	c.atLeast("checkpoint.keep", k.Keep, 1)
	c.atLeast("checkpoint.every_clocks", k.EveryClocks, 1)
	if k.To == "" || c.broken("checkpoint.to") {
		return
	}
	switch at, isFile := c.place("checkpoint.to", &k.To); {
	case isFile && c.foreign != nil:
		c.fault("checkpoint.to", "is a directory of the job server's host",
			"name a store, such as s3://BUCKET/PREFIX, or remove the line: then it is in the run's directory there")
	case isFile && !filepath.IsAbs(k.To):
		k.To = filepath.Join(c.dir, k.To)
	case c.job.Cloud == CloudLocal && at.Signed():
		c.fault("checkpoint.to", "is a store that wants credentials, which machines of cloud: local do not have",
			"name a directory, or add anonymous=true to the URL of a store that takes anybody")
	}
}

// place reads the name of a file or an object, and stores its canonical form: what is used is what was checked. path handles files.
func (c *checker) place(field string, name *string) (at location.Place, isFile bool) {
	if *name == "" || c.broken(field) {
		return at, false
	}
	at, err := location.Parse(*name)
	if err != nil {
		c.fault(field, err.Error(), "")
		return at, false
	}
	*name = at.String()
	if _, isFile = at.File(); !isFile && c.foreign != nil {
		c.foreignStore(field, at)
	}
	return at, isFile
}

// fileWanted returns what to write instead of a path to a missing file.
func fileWanted(written string) string {
	scheme, rest, _ := strings.Cut(written, ":")
	switch {
	case scheme == "s3" || scheme == "gs":
		return "write " + scheme + "://" + strings.TrimLeft(rest, "/")
	case strings.HasPrefix(written, "~") || strings.Contains(written, "$"):
		return "write the whole path: ~ and $NAME are not replaced"
	case strings.Contains(written, "*"):
		return "write the path of one file"
	}
	return "write the path of a file, relative to the job file's folder"
}

// path makes a path absolute and checks that the file exists.
func (c *checker) path(field string, path *string) {
	if *path == "" || c.broken(field) {
		return
	}
	written := *path
	if !filepath.IsAbs(written) {
		*path = filepath.Join(c.dir, written)
	}
	absolute, err := filepath.Abs(*path)
	if err == nil {
		*path = absolute
	}
	if c.foreign != nil && (!filepath.IsAbs(written) || !c.foreign.file(*path)) {
		c.fault(field, "names a file of the job server's host", "let `tierml run` upload it, or start the job server with --allow and the file's directory")
		return
	}
	instead := fileWanted(written)
	switch info, err := os.Stat(*path); {
	case err != nil:
		c.fault(field, fmt.Sprintf("cannot read %s: %s", *path, reason(err)), instead)
	case !info.Mode().IsRegular():
		c.fault(field, *path+" is not a file", instead)
	}
}
