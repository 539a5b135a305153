package mf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/ps"
)

// Prepare cuts a file of ratings into splits. All ratings of a user go to one split, so that no two splits
// change the same row of the table users; users are dealt out so that splits are even in ratings. Which
// ratings are held out depends on the seed and on the ids of user and item alone: adding users or changing
// the number of splits leaves the others' lot alone.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (apps.Dataset, error) {
	if err := cut.Check(); err != nil {
		return apps.Dataset{}, err
	}
	read, err := input.ReadRatings(in.Name, in.Data, in.MaxBadLines)
	if err != nil {
		return apps.Dataset{}, err
	}
	c := newCutter(read.Ratings, cut)
	if c.cut.Splits, err = cut.Over(in.Name, len(c.users), "users"); err != nil {
		return apps.Dataset{}, err
	}
	if c.examples == 0 {
		return apps.Dataset{}, fmt.Errorf("%s: every rating is held out: lower the share of %v", in.Name, cut.Holdout)
	}
	if err := c.write(create); err != nil {
		return apps.Dataset{}, err
	}
	detail, err := json.Marshal(c.ratings())
	if err != nil {
		return apps.Dataset{}, fmt.Errorf("encode the dataset's details: %w", err)
	}
	return apps.Dataset{
		Splits:   c.cut.Splits,
		Examples: int64(c.examples),
		Test:     int64(len(c.all) - c.examples),
		BadLines: read.BadLines,
		Detail:   detail,
	}, nil
}

// cutter holds the input while it is cut. Ids become rows by their rank: the lowest user id is row 0.
type cutter struct {
	cut      apps.Cut
	all      []input.Rating // sorted by user, then item
	held     []bool         // by place in all
	users    []userRange    // by row
	itemIDs  []int64        // by row
	counts   []int          // training ratings of each item, by row
	examples int            // ratings to train on
}

// userRange is one user's ratings: all[from:to], of which train are not held out.
type userRange struct {
	id              int64
	from, to, train int
}

func newCutter(all []input.Rating, cut apps.Cut) *cutter {
	c := &cutter{cut: cut, all: all, held: make([]bool, len(all))}
	c.itemIDs = itemIDs(all)
	c.counts = make([]int, len(c.itemIDs))
	for i, r := range all {
		if len(c.users) == 0 || c.users[len(c.users)-1].id != r.User {
			c.users = append(c.users, userRange{id: r.User, from: i})
		}
		u := &c.users[len(c.users)-1]
		u.to = i + 1
		if c.held[i] = heldOut(cut, r); !c.held[i] {
			u.train++
			c.examples++
			c.counts[c.itemRow(r.Item)]++
		}
	}
	return c
}

func itemIDs(all []input.Rating) []int64 {
	ids := make([]int64, len(all))
	for i, r := range all {
		ids[i] = r.Item
	}
	slices.Sort(ids)
	return slices.Clone(slices.Compact(ids))
}

func (c *cutter) itemRow(id int64) int {
	row, _ := slices.BinarySearch(c.itemIDs, id)
	return row
}

// purposeHoldout keeps this use of the seed apart from all others.
const purposeHoldout = 0x686f6c646f7574 // "holdout"

func heldOut(cut apps.Cut, r input.Rating) bool {
	share := float64(ps.Hash(purposeHoldout, cut.Seed, uint64(r.User), uint64(r.Item))>>11) / (1 << 53)
	return share < cut.Holdout
}

// ratings sums up in the order of all, so that the mean is the same bit for bit wherever it is computed.
func (c *cutter) ratings() Ratings {
	r := Ratings{Users: len(c.users), Items: len(c.itemIDs), Low: math.Inf(1), High: math.Inf(-1)}
	var sum float64
	for i, rating := range c.all {
		value := float64(rating.Value)
		r.Low, r.High = min(r.Low, value), max(r.High, value)
		if !c.held[i] {
			sum += value
		}
	}
	r.Mean = sum / float64(c.examples)
	var squares float64
	for i, rating := range c.all {
		if !c.held[i] {
			d := float64(rating.Value) - r.Mean
			squares += float64(d * d)
		}
	}
	if r.Scale = math.Sqrt(squares / float64(c.examples)); r.Scale == 0 {
		r.Scale = 1
	}
	return r
}

// deal spreads users over bins: the one with the most training ratings first, each to the bin that has the
// fewest so far. Ties go to the lower number. Every bin lists its users in order of their rows.
func deal(users []userRange, bins int) [][]int {
	order := make([]int, len(users))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(users[b].train, users[a].train) })
	load := make([]int, bins)
	dealt := make([][]int, bins)
	for _, u := range order {
		bin := 0
		for b := range load {
			// Users count too: a bin of users without training ratings is still work to hold.
			if load[b] < load[bin] || load[b] == load[bin] && len(dealt[b]) < len(dealt[bin]) {
				bin = b
			}
		}
		load[bin] += users[u].train
		dealt[bin] = append(dealt[bin], u)
	}
	for _, bin := range dealt {
		slices.Sort(bin)
	}
	return dealt
}

func (c *cutter) write(create apps.Create) error {
	for split, users := range deal(c.users, c.cut.Splits) {
		if err := writeSplit(c.split(ps.Split(split), users), create); err != nil {
			return fmt.Errorf("write split %d: %w", split, err)
		}
	}
	return nil
}

func writeSplit(s *splitData, create apps.Create) error {
	w, err := create(s.id)
	if err != nil {
		return err
	}
	return errors.Join(s.write(w), w.Close())
}

// split gathers one split's contents.
func (c *cutter) split(id ps.Split, users []int) *splitData {
	s := &splitData{id: id}
	var touched []int64
	for _, u := range users {
		for _, r := range c.all[c.users[u].from:c.users[u].to] {
			touched = append(touched, r.Item)
		}
	}
	slices.Sort(touched)
	touched = slices.Compact(touched)
	for _, item := range touched {
		row := c.itemRow(item)
		s.items = append(s.items, itemEntry{row: uint32(row), id: item, count: uint32(c.counts[row])})
	}
	for local, u := range users {
		user := c.users[u]
		s.users = append(s.users, userEntry{row: uint32(u), id: user.id})
		for i := user.from; i < user.to; i++ {
			item, _ := slices.BinarySearch(touched, c.all[i].Item)
			example := example{user: uint32(local), item: uint32(item), value: c.all[i].Value}
			if c.held[i] {
				s.test = append(s.test, example)
			} else {
				s.train = append(s.train, example)
			}
		}
	}
	return s
}
