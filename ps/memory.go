package ps

// StateBytes returns the size of the rows of all dense tables, with the state of their rules, once every row has been touched. Sparse
// tables are not included: the number of their non-zero cells is not known beforehand.
func (s *Schema) StateBytes() int64 {
	var bytes int64
	for i := range s.Tables {
		if t := &s.Tables[i]; !t.Sparse {
			bytes += int64(t.Rows) * int64(t.Width()) * 4
		}
	}
	return bytes
}

// HasSparse reports whether StateBytes leaves out tables.
func (s *Schema) HasSparse() bool {
	for i := range s.Tables {
		if s.Tables[i].Sparse {
			return true
		}
	}
	return false
}
