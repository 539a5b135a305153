package ps

// RestoreShard gives a partition as a checkpoint has it: all rows of the partition at a committed clock.
func RestoreShard(schema *Schema, id Partition, clock Clock, rows *Block) (*Shard, error) {
	restored, err := restore(schema, id, rows)
	if err != nil {
		return nil, err
	}
	s := newShardAt(schema, id, clock)
	s.rows = restored
	return s, nil
}

// RestoreBackup gives the backup that goes with RestoreShard.
func RestoreBackup(schema *Schema, id Partition, clock Clock, rows *Block) (*Backup, error) {
	restored, err := restore(schema, id, rows)
	if err != nil {
		return nil, err
	}
	b := NewBackup(schema, id)
	b.cut, b.rows = clock, restored
	return b, nil
}

func restore(schema *Schema, id Partition, rows *Block) (map[Key][]float32, error) {
	if err := rows.Check(schema, id); err != nil {
		return nil, err
	}
	restored := make(map[Key][]float32, len(rows.Keys))
	rows.Each(schema, func(k Key, row []float32) { restored[k] = append([]float32(nil), row...) })
	return restored, nil
}
