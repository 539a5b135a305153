package ps

// RestoreShard returns a partition from a checkpoint: all its rows at a committed clock.
func RestoreShard(schema *Schema, id Partition, clock Clock, rows *Block) (*Shard, error) {
	restored, err := restore(schema, id, rows)
	if err != nil {
		return nil, err
	}
	return shardOf(schema, id, clock, restored), nil
}

// RestoreBackup returns the backup that matches RestoreShard.
func RestoreBackup(schema *Schema, id Partition, clock Clock, rows *Block) (*Backup, error) {
	restored, err := restore(schema, id, rows)
	if err != nil {
		return nil, err
	}
	b := NewBackup(schema, id)
	b.cut, b.rows = clock, restored
	return b, nil
}

func restore(schema *Schema, id Partition, from *Block) (rows, error) {
	if err := from.Check(schema, id); err != nil {
		return rows{}, err
	}
	restored := newRows(schema, id)
	restored.take(from)
	return restored, nil
}
