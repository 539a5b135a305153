package mf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/ps"
)

// Prepare cuts a file of ratings into splits. All ratings of a user go to one split, so that no two splits change the same row of the table
// users; users are distributed so that splits have about equally many ratings. Which ratings are held out depends only on the seed and the
// ids of user and item: adding users or changing the number of splits does not change it for the others.
func (Kind) Prepare(in apps.Input, cut apps.Cut, create apps.Create) (data apps.Dataset, err error) {
	if err := cut.Check(); err != nil {
		return apps.Dataset{}, err
	}
	read, err := input.ReadRatings(in.Name, in.Data, in.MaxBadLines)
	if err != nil {
		return apps.Dataset{}, err
	}
	defer func() { err = errors.Join(err, read.Close()) }()
	notes, ratings := read.Notes(), read
	if read.Unrated {
		ratings, err = withoutRatings(read, cut.Seed)
		if err != nil {
			return apps.Dataset{}, err
		}
	}
	c := newCutter(ratings, cut)
	if c.cut.Splits, err = cut.Over(in.Name, len(c.in.Users), "users"); err != nil {
		return apps.Dataset{}, err
	}
	if c.examples == 0 {
		return apps.Dataset{}, fmt.Errorf("%s: every rating is held out: lower the share of %v", in.Name, cut.Holdout)
	}
	if err := c.write(create); err != nil {
		return apps.Dataset{}, err
	}
	about := c.ratings()
	about.MostUsers, about.MostItems = slices.Max(c.users), slices.Max(c.items)
	detail, err := json.Marshal(about)
	if err != nil {
		return apps.Dataset{}, fmt.Errorf("encode the dataset's details: %w", err)
	}
	return apps.Dataset{
		Splits:   c.cut.Splits,
		Examples: int64(c.examples),
		Test:     int64(len(c.in.Rated) - c.examples),
		BadLines: read.BadLines,
		Notes:    notes,
		Detail:   detail,
	}, nil
}

// cutter holds the input while it is split. Ids are mapped to rows in order: the lowest user id is row 0. Whether a rating is held out is
// recomputed each time: the input may be larger than memory.
type cutter struct {
	cut       apps.Cut
	in        input.Ratings
	train     []int    // by user: ratings to train on
	counts    []uint32 // by item: likewise
	examples  int      // ratings to train on
	low, high float64  // of all ratings
	sum       float64  // of training ratings, by user, then item, so that it is the same bit for bit wherever it is computed
	// Index: Split, once they are written; users and items with training ratings.
	users, items []int
}

func newCutter(in input.Ratings, cut apps.Cut) *cutter {
	c := &cutter{cut: cut, in: in, train: make([]int, len(in.Users)), counts: make([]uint32, len(in.Items)), low: math.Inf(1), high: math.Inf(-1)}
	c.each(func(user int, r input.Rated, held bool) {
		value := float64(r.Value)
		c.low, c.high = min(c.low, value), max(c.high, value)
		if !held {
			c.train[user]++
			c.examples++
			c.counts[r.Item]++
			c.sum += value
		}
	})
	return c
}

// each visits all ratings, in order.
func (c *cutter) each(take func(user int, r input.Rated, held bool)) {
	for u := range c.in.Users {
		for _, r := range c.in.Rated[c.in.Start[u]:c.in.Start[u+1]] {
			take(u, r, c.heldOut(u, r))
		}
	}
}

// purposeHoldout separates this use of the seed from all others.
const purposeHoldout = 0x686f6c646f7574 // "holdout"

func (c *cutter) heldOut(user int, r input.Rated) bool {
	u, i := keyOf(c.in.Users, c.in.UserNames, user), keyOf(c.in.Items, c.in.ItemNames, int(r.Item))
	share := float64(ps.Hash(purposeHoldout, c.cut.Seed, u, i)>>11) / (1 << 53)
	return share < c.cut.Holdout
}

// keyOf returns an id, or the hash of a name: it does not depend on other users and items.
func keyOf(ids []int64, names []string, place int) uint64 {
	if names == nil {
		return uint64(ids[place])
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, names[place])
	return h.Sum64()
}

// purposeUnrated separates this use of the seed from all others.
const purposeUnrated = 0x756e7261746564 // "unrated"

// withoutRatings gives each user of a file without ratings an equal number of random items that the user does not have, with the value 0:
// there is nothing to learn from ones alone.
func withoutRatings(in input.Ratings, seed uint64) (input.Ratings, error) {
	out := in
	out.Start, out.Rated = make([]int, 1, len(in.Start)), make([]input.Rated, 0, 2*len(in.Rated))
	if len(in.Items) < 2 {
		return out, errors.New("without ratings there must be two items or more")
	}
	for u := range in.Users {
		mine := in.Rated[in.Start[u]:in.Start[u+1]]
		has := make(map[uint32]bool, 2*len(mine))
		for _, r := range mine {
			has[r.Item] = true
		}
		key := keyOf(in.Users, in.UserNames, u)
		from := len(out.Rated)
		out.Rated = append(out.Rated, mine...)
		for i, wanted := uint64(0), min(len(mine), len(in.Items)-len(mine)); wanted > 0; i++ {
			item := uint32(ps.Hash(purposeUnrated, seed, key, i) % uint64(len(in.Items)))
			if !has[item] {
				has[item] = true
				out.Rated = append(out.Rated, input.Rated{Item: item})
				wanted--
			}
		}
		slices.SortFunc(out.Rated[from:], func(a, b input.Rated) int { return cmp.Compare(a.Item, b.Item) })
		out.Start = append(out.Start, len(out.Rated))
	}
	return out, nil
}

func (c *cutter) ratings() Ratings {
	r := Ratings{Users: len(c.in.Users), Items: len(c.in.Items), Low: c.low, High: c.high, Mean: c.sum / float64(c.examples)}
	var squares float64
	c.each(func(_ int, rating input.Rated, held bool) {
		if !held {
			d := float64(rating.Value) - r.Mean
			squares += float64(d * d)
		}
	})
	if r.Scale = math.Sqrt(squares / float64(c.examples)); r.Scale == 0 {
		r.Scale = 1
	}
	return r
}

// deal distributes users over bins: the one with the most training ratings first, each to the bin with the fewest so far. Ties go to the
// lower number. Every bin lists its users in order of their rows.
func deal(train []int, bins int) [][]int {
	order := make([]int, len(train))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(train[b], train[a]) })
	load := make([]int, bins)
	dealt := make([][]int, bins)
	for _, u := range order {
		bin := 0
		for b := range load {
			// Users count too: a bin of users without training ratings still takes memory.
			if load[b] < load[bin] || load[b] == load[bin] && len(dealt[b]) < len(dealt[bin]) {
				bin = b
			}
		}
		load[bin] += train[u]
		dealt[bin] = append(dealt[bin], u)
	}
	for _, bin := range dealt {
		slices.Sort(bin)
	}
	return dealt
}

func (c *cutter) write(create apps.Create) error {
	dealt := deal(c.train, c.cut.Splits)
	c.users, c.items = make([]int, len(dealt)), make([]int, len(dealt))
	encode := func(id int) ([]byte, error) {
		s := c.split(ps.Split(id), dealt[id])
		c.users[id], c.items[id] = s.trained()
		return s.encode()
	}
	return parallel.InOrder(runtime.GOMAXPROCS(0), len(dealt), encode, func(id int, file []byte) error {
		w, err := create(ps.Split(id))
		if err == nil {
			_, err = w.Write(file)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			return fmt.Errorf("write split %d: %w", id, err)
		}
		return nil
	})
}

// split collects one split's contents.
func (c *cutter) split(id ps.Split, users []int) *splitData {
	s := &splitData{id: id, named: c.in.UserNames != nil || c.in.ItemNames != nil}
	place := make([]uint32, len(c.in.Items)) // in the split's list, plus one
	train, all := 0, 0
	for _, u := range users {
		for _, r := range c.in.Rated[c.in.Start[u]:c.in.Start[u+1]] {
			place[r.Item] = 1
		}
		train += c.train[u]
		all += c.in.Start[u+1] - c.in.Start[u]
	}
	for row, touched := range place {
		if touched > 0 {
			s.items = append(s.items, itemEntry{row: uint32(row), id: c.in.Items[row], count: c.counts[row]})
			if s.named {
				s.items[len(s.items)-1].name = nameOf(c.in.Items, c.in.ItemNames, row)
			}
			place[row] = uint32(len(s.items))
		}
	}
	s.train, s.test = make([]example, 0, train), make([]example, 0, all-train)
	for local, u := range users {
		s.users = append(s.users, userEntry{row: uint32(u), id: c.in.Users[u]})
		if s.named {
			s.users[local].name = nameOf(c.in.Users, c.in.UserNames, u)
		}
		for i := c.in.Start[u]; i < c.in.Start[u+1]; i++ {
			r := c.in.Rated[i]
			example := example{user: uint32(local), item: place[r.Item] - 1, value: r.Value}
			if c.heldOut(u, r) {
				s.test = append(s.test, example)
			} else {
				s.train = append(s.train, example)
			}
		}
	}
	return s
}

// nameOf returns the name in a split file; the id if only the ids of the other side are texts.
func nameOf(ids []int64, names []string, place int) string {
	if names == nil {
		return strconv.FormatInt(ids[place], 10)
	}
	return names[place]
}

// trained counts the users and items with ratings to train on.
func (s *splitData) trained() (users, items int) {
	seenUsers, seenItems := make([]bool, len(s.users)), make([]bool, len(s.items))
	for _, e := range s.train {
		if !seenUsers[e.user] {
			seenUsers[e.user] = true
			users++
		}
		if !seenItems[e.item] {
			seenItems[e.item] = true
			items++
		}
	}
	return users, items
}
