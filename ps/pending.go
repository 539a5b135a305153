package ps

// pending is the committed work of one clock that is not folded yet: one sum per touched row.
type pending struct {
	committed int // splits that have committed for this clock
	fixed     map[Key][]int64
	float     map[Key][]float32
}

// add sums a contribution's updates. On overflow nothing is guaranteed about the sums: the caller treats
// it as fatal for the job, since a clamped sum would be a wrong answer.
func (p *pending) add(s *Schema, u *Sums) error {
	if s.Deterministic {
		return p.addFixed(s, u)
	}
	if p.float == nil {
		p.float = make(map[Key][]float32, len(u.Keys))
	}
	var fresh []float32 // one piece of memory for all rows that are new
	at := 0
	for _, k := range u.Keys {
		n := s.Cols(k)
		sum, ok := p.float[k]
		if !ok {
			if fresh == nil {
				fresh = make([]float32, len(u.Float))
			}
			sum = fresh[at : at+n : at+n]
			p.float[k] = sum
		}
		if err := addUpdate(s.Kind(k), sum, u.Float[at:at+n]); err != nil {
			return s.at(k, err)
		}
		at += n
	}
	return nil
}

func (p *pending) addFixed(s *Schema, u *Sums) error {
	if p.fixed == nil {
		p.fixed = make(map[Key][]int64, len(u.Keys))
	}
	var fresh []int64 // one piece of memory for all rows that are new
	at := 0
	for _, k := range u.Keys {
		n := s.Cols(k)
		sum, ok := p.fixed[k]
		if !ok {
			if fresh == nil {
				fresh = make([]int64, len(u.Fixed))
			}
			sum = fresh[at : at+n : at+n]
			p.fixed[k] = sum
		}
		for i, v := range u.Fixed[at : at+n] {
			var err error
			if sum[i], err = AddFixed(sum[i], v); err != nil {
				return s.at(k, err)
			}
		}
		at += n
	}
	return nil
}

// apply adds the sum for k, if there is one, to row.
func (p *pending) apply(s *Schema, k Key, row []float32) error {
	if sum, ok := p.float[k]; ok {
		return s.at(k, addUpdate(s.Kind(k), row, sum))
	}
	if sum, ok := p.fixed[k]; ok {
		if s.Kind(k) == Int32 {
			return s.at(k, FoldCounts(Ints(row), sum))
		}
		FoldSum(row, sum)
	}
	return nil
}

// addUpdate adds cells to cells.
func addUpdate(kind Kind, sum, update []float32) error {
	if kind == Int32 {
		return AddInts(Ints(sum), Ints(update))
	}
	for i, v := range update {
		sum[i] += v
	}
	return nil
}

// eachKey calls f once per touched row, in no order: rows are independent of one another.
func (p *pending) eachKey(f func(Key)) {
	for k := range p.fixed {
		f(k)
	}
	for k := range p.float {
		f(k)
	}
}

// export and importSums carry the sums through a move.
func (p *pending) export(s *Schema) Sums {
	var u Sums
	p.eachKey(func(k Key) { u.Keys = append(u.Keys, k) })
	sortKeys(u.Keys)
	for _, k := range u.Keys {
		u.Fixed = append(u.Fixed, p.fixed[k]...)
		u.Float = append(u.Float, p.float[k]...)
	}
	return u
}
