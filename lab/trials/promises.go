package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/apps/lda"
	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/apps/tally"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// promise is a condition on a run that has ended, and whether it holds.
type promise struct {
	words string
	err   error
}

// promises checks what must hold for every run, whatever was done to it.
func (t *trial) promises(entries []journal.Entry) []promise {
	recoveries, cuts := t.oneCutEverywhere(entries)
	list := []promise{
		{"no clock lost beyond the last cut, and each in order", checkJournal(entries)},
		{fmt.Sprintf("one cut everywhere after each of %d recoveries", recoveries), cuts},
		{"no process is left over", t.noneLeft()},
		{"no process reports that it broke", t.checkLogs()},
		{"the bill is the cloud's, to the billionth of a dollar", t.checkBill()},
	}
	switch t.job.App {
	case tally.Kind{}.Name():
		kept, whole := t.checkpointsAreWhole(entries)
		list = append(list, promise{"every update counted once: the sums are the work", t.countedOnce(entries)},
			promise{fmt.Sprintf("each of the %d checkpoints that are kept holds the work up to its clock", kept), whole})
	case lda.Kind{}.Name():
		kept, whole := t.checkpointsAreWhole(entries)
		list = append(list, promise{"every token counted once: words, topics and documents sum to the same", t.tokensCountedOnce()},
			promise{fmt.Sprintf("in each of the %d checkpoints that are kept the tokens have the topics that are counted", kept), whole})
	}
	return list
}

// broken joins the violated promises.
func broken(list []promise) error {
	var errs []error
	for _, p := range list {
		if p.err != nil {
			errs = append(errs, fmt.Errorf("not so: %s: %w", p.words, p.err))
		}
	}
	return errors.Join(errs...)
}

// checkJournal checks what must hold in every journal: each clock once and in order, no loss beyond the last committed
// cut, or beyond the newest checkpoint if reliable machines were lost, a known end for every machine, and the numbers
// of each `tierml scale` until the next request.
func checkJournal(entries []journal.Entry) error {
	launched, ended := map[string]bool{}, map[string]bool{}
	var errs []error
	fault := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("line %d: %s", line+1, fmt.Sprintf(format, args...)))
	}
	var done, best, cut, saved int64
	bared := false // a reliable machine was lost since the last cut
	reliable := map[string]bool{}
	wanted := ""
	for i, e := range entries {
		if err := e.Validate(); err != nil {
			fault(i, "%v", err)
		}
		switch e.Kind {
		case journal.Launch:
			launched[e.Instance] = true
			reliable[e.Instance] = e.Tier == "reliable"
		case journal.Leave:
			bared = bared || reliable[e.Instance]
		case journal.TakeOver:
			bared = bared || e.Count == 0 // their end may not be in the journal, as on a full disk
		case journal.Checkpoint:
			saved = e.Clock
		case journal.Scale:
			if wanted != "" && e.From != wanted {
				fault(i, "%s are wanted; they were %s", e.From, wanted)
			}
			wanted = e.To
		case journal.Evicted, journal.Terminated, journal.Failed:
			ended[e.Instance] = ended[e.Instance] || e.Ended != nil
		case journal.ClockDone:
			if e.Clock != done+1 {
				fault(i, "clock %d comes after clock %d", e.Clock, done)
			}
			if e.Redone != (e.Clock <= best) {
				fault(i, "clock %d says redone %v; %d were done", e.Clock, e.Redone, best)
			}
			done, best = e.Clock, max(best, e.Clock)
		case journal.Cut:
			if e.Clock < cut {
				fault(i, "a cut at clock %d after one at clock %d", e.Clock, cut)
			}
			cut, bared = e.Clock, false
		case journal.Rollback:
			if e.Clock != cut && !(bared && e.Clock == saved) {
				fault(i, "back to clock %d; the last cut is at clock %d, the newest checkpoint at clock %d; reliable machines lost: %v",
					e.Clock, cut, saved, bared)
			}
			done, cut = e.Clock, e.Clock
		}
	}
	for id := range launched {
		if !ended[id] {
			errs = append(errs, fmt.Errorf("%s was launched, and its end is not in the journal", id))
		}
	}
	return errors.Join(errs...)
}

// nothingRedone checks that no clock was repeated; it applies if every lost machine was warned in time.
func nothingRedone(entries []journal.Entry) error {
	for i, e := range entries {
		if e.Kind == journal.Rollback || e.Redone {
			return fmt.Errorf("line %d: %s of clock %d: %s", i+1, e.Kind, e.Clock, e.Why)
		}
	}
	return nil
}

// backAtTheCut matches a machine's log line about its return to a cut.
var backAtTheCut = regexp.MustCompile(`(?m)^time=(\S+) .*msg="back at the cut".* generation=(\d+) cut=(\d+)`)

// returned is a machine's return to a cut.
type returned struct {
	at              time.Time
	log             string
	generation, cut string
}

// returns reads the returns to cuts from all machines' logs.
func (t *trial) returns() (list []returned, err error) {
	logs, err := filepath.Glob(t.path(machineLogs, "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		for _, found := range backAtTheCut.FindAllStringSubmatch(string(text), -1) {
			at, err := time.Parse(time.RFC3339, found[1])
			if err != nil {
				return nil, err
			}
			list = append(list, returned{at, filepath.Base(log), found[2], found[3]})
		}
	}
	return list, err
}

// oneCutEverywhere compares the cuts to which machines report having returned with the journal's for their
// generation.
func (t *trial) oneCutEverywhere(entries []journal.Entry) (recoveries int, err error) {
	cut := map[string]string{}
	for _, e := range entries {
		if e.Kind == journal.Rollback {
			cut[fmt.Sprint(e.Generation)] = fmt.Sprint(e.Clock)
		}
	}
	list, err := t.returns()
	seen := map[string]bool{}
	for _, r := range list {
		seen[r.generation] = true
		if want := cut[r.generation]; want != r.cut {
			err = errors.Join(err, fmt.Errorf("%s went back to cut %s in generation %s; the journal has cut %q", r.log, r.cut, r.generation, want))
		}
	}
	return len(seen), err
}

// checkLogs looks for output of processes that ended because of a bug.
func (t *trial) checkLogs() error {
	found, _ := filepath.Glob(t.path(machineLogs, "*.log"))
	more, _ := filepath.Glob(t.path("*.log"))
	for _, log := range append(found, more...) {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("reading the logs: %w", err)
		}
		for _, words := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			if at := bytes.Index(text, []byte(words)); at >= 0 {
				return fmt.Errorf("%s has %s", filepath.Base(log), text[at:min(len(text), at+2000)])
			}
		}
	}
	return nil
}

// noneLeft waits a moment for the last machines to end.
func (t *trial) noneLeft() error {
	for deadline := time.Now().Add(patience / 4); ; time.Sleep(50 * time.Millisecond) {
		left := t.processes(t.cloud)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v", left)
		}
	}
}

// checkBill compares the run's report with the cloud's bill, machine by machine.
func (t *trial) checkBill() error {
	var report cost.Report
	text, err := os.ReadFile(filepath.Join(t.folder(), rundir.ReportJSON))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		return fmt.Errorf("reading the report: %w", err)
	}
	var bill fakecloud.Bill
	if err := t.look("bill", &bill); err != nil {
		return err
	}
	ours := map[string]market.USD{}
	for _, i := range report.Instances {
		ours[i.ID] = i.USD
	}
	var errs []error
	for _, line := range bill.Lines {
		usd, known := ours[line.ID]
		delete(ours, line.ID)
		if !known || usd != line.Total {
			errs = append(errs, fmt.Errorf("%s costs $%s by the cloud and $%s by the report (known: %v)", line.ID, line.Total, usd, known))
		}
	}
	for id, usd := range ours {
		errs = append(errs, fmt.Errorf("%s costs $%s by the report, and the cloud never had it", id, usd))
	}
	if report.Totals.Total != bill.Total {
		errs = append(errs, fmt.Errorf("the cloud's total is $%s, the report's $%s", bill.Total, report.Totals.Total))
	}
	return errors.Join(errs...)
}

// countedOnce compares the result, or what an interrupted run has saved, with the work done.
func (t *trial) countedOnce(entries []journal.Entry) error {
	at := ps.Clock(t.job.Clocks)
	path := filepath.Join(t.folder(), rundir.ModelFile)
	if reached(entries) < int64(t.job.Clocks) {
		path = filepath.Join(t.folder(), rundir.CheckpointFile)
		var err error
		if at, err = checkpoint.Clock(path); err != nil {
			return fmt.Errorf("nothing was saved: %w; it printed\n%s", err, t.run.printed())
		}
	}
	m, err := model.Load(path)
	if err != nil {
		return err
	}
	return t.compare(at, func(name string) []int32 {
		table, _ := m.Tensor(name)
		return table.Int32
	})
}

// compare compares the tables of a tally at a clock with the work done.
func (t *trial) compare(at ps.Clock, tables func(name string) []int32) error {
	var errs []error
	for name, want := range tally.Expected(t.job.Splits, at) {
		table := tables(name)
		if len(table) != len(want) {
			errs = append(errs, fmt.Errorf("there is no table %s of %d counts", name, len(want)))
			continue
		}
		more, fewer := 0, 0
		for i, n := range table {
			switch {
			case n > want[i]:
				more++
			case n < want[i]:
				fewer++
			}
		}
		if more+fewer > 0 {
			errs = append(errs, fmt.Errorf("table %s at clock %d: %d cells hold more than was done, %d less", name, at, more, fewer))
		}
	}
	return errors.Join(errs...)
}

// failedFor checks that some checkpoint failed because the disk was full.
func failedFor(entries []journal.Entry) error {
	if slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return e.Kind == journal.SaveFailed && strings.Contains(e.Why, syscall.ENOSPC.Error())
	}) {
		return nil
	}
	return errors.New("no checkpoint failed")
}

// tokensCountedOnce checks the model of an lda run that has ended.
func (t *trial) tokensCountedOnce() error {
	m, err := model.Load(filepath.Join(t.folder(), rundir.ModelFile))
	if err != nil {
		return err
	}
	words, _ := m.Tensor("word_topic")
	totals, _ := m.Tensor("topic_totals")
	return checkTokens(words.Int32, totals.Int32, nil)
}

// checkTokens compares the three counts in a topic model: the topics of each word, the total of each topic, and, if
// known, the topic of each token plus 1. A roll-back returns all of these to one cut, and each contribution changes
// them alike.
func checkTokens(words, totals, tokens []int32) error {
	if len(totals) == 0 || len(words) == 0 {
		return errors.New("there are no counts")
	}
	var errs []error
	ofWords, ofTokens := make([]int32, len(totals)), make([]int32, len(totals))
	for i, n := range words {
		if ofWords[i%len(totals)] += n; n < 0 {
			errs = append(errs, fmt.Errorf("word %d has topic %d %d times", i/len(totals), i%len(totals), n))
		}
	}
	for _, topic := range tokens {
		if topic > 0 {
			ofTokens[topic-1]++
		}
	}
	if !slices.Equal(ofWords, totals) || tokens != nil && !slices.Equal(ofTokens, totals) {
		errs = append(errs, fmt.Errorf("topics have %d tokens; by words they are %d, by tokens %d", totals, ofWords, ofTokens))
	}
	return errors.Join(errs...)
}

// checkpointsAreWhole compares every stored checkpoint with the work up to its clock.
func (t *trial) checkpointsAreWhole(entries []journal.Entry) (kept int, err error) {
	state, err := jobrun.ReadState(t.folder())
	if err != nil {
		return 0, err
	}
	j, program, err := programOf(context.Background(), filepath.Join(t.folder(), rundir.JobFile))
	if err != nil {
		return 0, err
	}
	schema := jobrun.SchemaOf(j, program)
	found, doubts, err := checkpoint.List(context.Background(), state.Checkpoints, nil)
	err = errors.Join(err, errors.Join(doubts...))
	if len(found) == 0 && count(entries, journal.Checkpoint) > 0 && reached(entries) < int64(t.job.Clocks) {
		err = errors.Join(err, errors.New("no checkpoint is left"))
	}
	for _, f := range found {
		if e := t.isWhole(schema, f); e != nil {
			err = errors.Join(err, fmt.Errorf("the checkpoint %s: %w", filepath.Base(f.Manifest), e))
		}
	}
	return len(found), err
}

func (t *trial) isWhole(schema ps.Schema, f checkpoint.Found) error {
	all := make([]ps.Partition, schema.Partitions)
	for p := range all {
		all[p] = ps.Partition(p)
	}
	blocks, err := checkpoint.LoadParts(context.Background(), f.Manifest, &schema, f.Clock, all)
	if err != nil {
		return err
	}
	tables := map[string][]int32{}
	for _, t := range schema.Tables {
		tables[t.Name] = make([]int32, int(t.Rows)*t.Cols)
	}
	for _, block := range blocks {
		block.Each(&schema, func(k ps.Key, cells []float32) {
			t := schema.Tables[k.Table]
			copy(tables[t.Name][int(k.Row)*t.Cols:], ps.Ints(cells))
		})
	}
	if t.job.App == (lda.Kind{}).Name() {
		return checkTokens(tables["words"], tables["totals"], tables["slots"])
	}
	return t.compare(f.Clock, func(name string) []int32 { return tables[name] })
}
