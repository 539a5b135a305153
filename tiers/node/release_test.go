package node

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Work in progress at a roll-back belongs to the generation before: neither a release nor a stock of the new one waits for it or knows its
// clock, however long it continues.
func TestARollBackForgetsWhatIsUnderWay(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		slow := &slowApp{toy: toy{work: testWork}, computing: make(chan struct{}), goOn: make(chan struct{})}
		w.app = slow
		splits := []ps.Split{0, 1, 2, 3, 4, 5}
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Load{Splits: splits})
		w.do("i-1", tiers.Assign{Splits: all(splits...)})
		<-slow.computing
		w.do("i-1", tiers.FenceGeneration{Generation: 1})
		w.do("i-1", tiers.Recover{Generation: 1, Splits: splits})
		if stock := w.do("i-1", tiers.TakeStock{}).(tiers.Stock); !slices.Equal(stock.Splits, all(splits...)) {
			t.Errorf("after the roll-back it holds %v", stock.Splits)
		}
		released := w.do("i-1", tiers.Release{Splits: splits[:3]}).(tiers.Released)
		if !slices.Equal(released.Splits, all(splits[:3]...)) {
			t.Errorf("released %v", released.Splits)
		}
		w.do("i-1", tiers.Assign(released))
		close(slow.goOn)
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A release that may drop the clock in progress is answered at once, with that clock: the splits are computed again elsewhere, to the same
// bits, however long it continues here.
func TestReleaseMayDropTheClockUnderWay(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		slow := &slowApp{toy: toy{work: testWork}, computing: make(chan struct{}), goOn: make(chan struct{})}
		w.app = slow
		splits := []ps.Split{0, 1, 2, 3, 4, 5}
		first, second := w.join("i-1", 1, 5), w.join("i-2", 2, 5)
		w.do("i-1", tiers.Load{Splits: splits})
		w.do("i-1", tiers.Assign{Splits: all(splits...)})
		<-slow.computing // split 0, which stays
		asked := time.Now()
		released := w.do("i-1", tiers.Release{Splits: splits[1:4], Drop: true}).(tiers.Released)
		if !slices.Equal(released.Splits, all(splits[1:4]...)) || time.Since(asked) > 0 {
			t.Errorf("released %v after %v", released.Splits, time.Since(asked))
		}
		w.do("i-2", tiers.Assign(released))
		close(slow.goOn)
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := errors.Join(first.end(), second.end()); err != nil {
			t.Error(err)
		}
	})
}

// Receivers become ready one after the other. What the first waits for is dropped as soon as a later release may drop it, also where rounds
// overlap.
func TestALaterReleaseDropsWhatAnEarlierWaitsFor(t *testing.T) {
	for _, staleness := range []ps.Clock{0, 2, ps.Unbounded} {
		simulate(t, func(t *testing.T, w *world) {
			w.schema.Staleness, w.schema.Deterministic = staleness, staleness == 0
			w.parties = newDataPlane(&w.schema)
			slow := &slowApp{toy: toy{work: testWork}, computing: make(chan struct{}), goOn: make(chan struct{})}
			w.app = slow
			waited, late := []ps.Split{0, 1, 2}, []ps.Split{3, 4, 5}
			first, second := w.join("i-1", 1, 5), w.join("i-2", 2, 5)
			w.do("i-1", tiers.Load{Splits: slices.Concat(waited, late)})
			w.do("i-1", tiers.Assign{Splits: all(waited...)})
			<-slow.computing
			w.do("i-1", tiers.Assign{Splits: all(late...)}) // not in the round in progress
			asked := time.Now()
			earlier := w.order("i-1", tiers.Release{Splits: waited})
			released := w.do("i-1", tiers.Release{Splits: late, Drop: true}).(tiers.Released)
			before := w.answer("i-1", earlier).Result.(tiers.Released)
			if !slices.Equal(before.Splits, all(waited...)) || !slices.Equal(released.Splits, all(late...)) || time.Since(asked) > 0 {
				t.Errorf("staleness %d: released %v and %v after %v", staleness, before.Splits, released.Splits, time.Since(asked))
			}
			w.do("i-2", tiers.Assign(before))
			w.do("i-2", tiers.Assign(released))
			close(slow.goOn)
			w.awaitClock(5)
			if staleness == 0 {
				w.sameAsUndisturbed(5)
			}
			if err := errors.Join(first.end(), second.end()); err != nil {
				t.Error(err)
			}
		})
	}
}

// slowApp is a toy whose split 0 computes until it is released.
type slowApp struct {
	toy
	computing, goOn chan struct{}
	once            sync.Once
}

func (a *slowApp) LoadSplit(id ps.Split, r io.Reader, seed uint64) (apps.Split, error) {
	split, err := a.toy.LoadSplit(id, r, seed)
	if id == 0 && err == nil {
		split = &slowSplit{split, a}
	}
	return split, err
}

type slowSplit struct {
	apps.Split
	app *slowApp
}

func (s *slowSplit) Run(c ps.Clock, rows apps.Rows, evaluate bool) (apps.Stats, error) {
	select {
	case <-s.app.goOn:
	default:
		s.app.once.Do(func() { close(s.app.computing) })
		<-s.app.goOn
	}
	return s.Split.Run(c, rows, evaluate)
}
