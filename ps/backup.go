package ps

// Backup is one partition at its BackupPS: the last committed cut, and the next cut's delivery
// until that commits.
//
// Invariant: unless it is lacking, the committed cut is complete, and can be served or sent from here at any moment. A
// delivery counts once it is complete and builds on that cut; it replaces the cut only by Commit. Repeating a delivery
// or commit has no effect.
//
// Rejected: applying rows as they arrive. A sender that dies halfway would leave neither cut.
type Backup struct {
	schema   *Schema
	id       Partition
	cut      Clock
	lacking  bool // has no cut: added after the job's start, and still without a full delivery
	rows     rows
	incoming *Delivery
	held     *Held // while it is being read; nil = it is not
}

// NewBackup returns a backup with cut 0, the initial state, which needs no rows.
func NewBackup(schema *Schema, id Partition) *Backup {
	return &Backup{schema: schema, id: id, rows: newRows(schema, id)}
}

// NewEmptyBackup returns a backup without a cut, which needs a full delivery first.
func NewEmptyBackup(schema *Schema, id Partition) *Backup {
	b := NewBackup(schema, id)
	b.lacking = true
	return b
}

// Cut returns the committed cut; false if there is none.
func (b *Backup) Cut() (Clock, bool) { return b.cut, !b.lacking }

// Delivered returns the cut of a complete delivery that awaits its commit; 0 = none.
func (b *Backup) Delivered() Clock {
	if b.incoming == nil {
		return 0
	}
	return b.incoming.Cut
}

// Deliver accepts a complete delivery. needFull: it builds on a cut that is not here, so send all rows.
func (b *Backup) Deliver(d *Delivery) (needFull bool, err error) {
	if err := d.each(false, func(rows *Block) error { return rows.Check(b.schema, b.id) }); err != nil {
		return false, err
	}
	if !b.lacking && d.Cut == b.cut {
		return false, nil // already delivered and committed
	}
	if !d.Full && (b.lacking || d.Base != b.cut) {
		return true, nil
	}
	if d.Cut < b.cut {
		return false, invalid("delivery of cut %d to a backup at cut %d", d.Cut, b.cut)
	}
	b.incoming = d
	return false, nil
}

// Commit makes the delivered cut the committed one. Repeating it is harmless.
func (b *Backup) Commit(c Clock) error {
	if !b.lacking && b.cut == c {
		return nil
	}
	if b.incoming == nil || b.incoming.Cut != c {
		return invalid("cut %d of partition %d was not delivered", c, b.id)
	}
	switch {
	case b.incoming.Full:
		b.held, b.rows = nil, newRows(b.schema, b.id) // readers keep the old rows
	case b.held != nil:
		_ = b.incoming.each(false, func(rows *Block) error { b.held.keep(rows); return nil })
	}
	_ = b.incoming.each(true, func(rows *Block) error { b.rows.take(rows); return nil })
	b.cut, b.lacking, b.incoming = c, false, nil
	return nil
}

// Drop forgets a delivery that will not be committed.
func (b *Backup) Drop() { b.incoming = nil }

// Promote returns a shard that starts at the committed cut; the backup is unchanged.
func (b *Backup) Promote(c Clock) (*Shard, error) {
	if b.lacking || b.cut != c {
		return nil, invalid("partition %d: backup holds cut %d, not %d", b.id, b.cut, c)
	}
	return shardOf(b.schema, b.id, c, b.rows.clone()), nil
}
