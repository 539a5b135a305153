package labelled

import (
	"maps"
	"math"
	"slices"
)

// describe measures the training examples, in the order given. Cells are read row by row, in memory order.
func (s *source) describe(train []int) {
	measures := make([]measure, len(s.data.Columns))
	for i := range measures {
		measures[i].column = &s.data.Columns[i]
	}
	if !s.data.Table() {
		for _, label := range s.all.labels {
			measures[0].see(label)
		}
		for _, row := range train {
			s.data.Entries += int64(s.all.start[row+1] - s.all.start[row])
		}
	} else {
		for k, column := range s.all.index {
			measures[column].see(s.all.value[k])
		}
	}
	s.eachMeasured(train, func(i uint32, v float32) { measures[i].add(v) })
	for i := range measures {
		measures[i].center()
	}
	s.eachMeasured(train, func(i uint32, v float32) { measures[i].deviate(v) })
	for i := range measures {
		measures[i].end()
	}
}

// eachMeasured yields the values of some rows, with their columns: a table's cells, or the labels.
func (s *source) eachMeasured(rows []int, take func(column uint32, v float32)) {
	for _, row := range rows {
		if !s.data.Table() {
			take(0, s.all.labels[row])
			continue
		}
		for k := s.all.start[row]; k < s.all.start[row+1]; k++ {
			take(s.all.index[k], s.all.value[k])
		}
	}
}

// measure computes the statistics of all values (which words exist) and of the training values. All values are visited, then the training
// values are added, then their deviations measured.
type measure struct {
	column             *Column
	seen               map[float32]int64 // training examples
	sum, mean, squares float64
}

func (m *measure) see(v float32) {
	if len(m.seen) > MaxClasses {
		return
	}
	if m.seen == nil {
		m.seen = map[float32]int64{}
	}
	m.seen[v] += 0
}

func (m *measure) add(v float32) {
	m.sum += float64(v)
	m.column.Present++
	if len(m.seen) <= MaxClasses {
		m.seen[v]++
	}
}

// center computes the mean. A model has its means and scales in 32 bits: training uses the same.
func (m *measure) center() { m.mean = float64(float32(m.sum / float64(m.column.Present))) }

func (m *measure) deviate(v float32) {
	d := float64(v) - m.mean
	m.squares += float64(d * d)
}

func (m *measure) end() {
	c := m.column
	c.Scale = 1
	if len(m.seen) <= MaxClasses {
		for _, v := range slices.Sorted(maps.Keys(m.seen)) {
			if c.Counts = append(c.Counts, m.seen[v]); len(c.Words) == 0 {
				c.Values = append(c.Values, float64(v))
			}
		}
	}
	if len(c.Words) > 0 {
		return
	}
	if c.Present == 0 {
		return
	}
	c.Mean = m.mean
	if scale := float64(float32(math.Sqrt(m.squares / float64(c.Present)))); scale > 0 {
		c.Scale = scale
	}
}
