package ps

// Backup is one partition at its BackupPS: the last committed cut, and the delivery of the next one
// until that commits.
//
// Invariant: unless it is lacking, the committed cut is complete, and can be served or sent from here at any moment. A delivery counts
// when it has come as a whole and builds on that cut; it replaces the cut only by Commit. Delivering or committing again has no effect.
//
// Not done: applying rows as they come. A sender that dies in between would leave neither cut.
type Backup struct {
	schema   *Schema
	id       Partition
	cut      Clock
	lacking  bool // holds no cut at all: came after the job's start and has had no full delivery yet
	rows     rows
	incoming *Delivery
	held     *Held // being read; nil = it is not
}

// NewBackup returns a backup that holds cut 0, the initial state, which takes no rows.
func NewBackup(schema *Schema, id Partition) *Backup {
	return &Backup{schema: schema, id: id, rows: newRows(schema, id)}
}

// NewEmptyBackup returns a backup that holds nothing and needs a full delivery first.
func NewEmptyBackup(schema *Schema, id Partition) *Backup {
	b := NewBackup(schema, id)
	b.lacking = true
	return b
}

// Cut returns the committed cut that it holds; false when it holds none.
func (b *Backup) Cut() (Clock, bool) { return b.cut, !b.lacking }

// Delivered returns the cut of a complete delivery that waits for its commit; 0 = none.
func (b *Backup) Delivered() Clock {
	if b.incoming == nil {
		return 0
	}
	return b.incoming.Cut
}

// Deliver takes a complete delivery. needFull: it builds on a cut that is not here, send all rows.
func (b *Backup) Deliver(d *Delivery) (needFull bool, err error) {
	if err := d.each(false, func(rows *Block) error { return rows.Check(b.schema, b.id) }); err != nil {
		return false, err
	}
	if !b.lacking && d.Cut == b.cut {
		return false, nil // delivered and committed before
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

// Commit makes the delivered cut the one that is held. Committing it again is harmless.
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

// Promote returns a shard that starts at the held cut; the backup stays what it is.
func (b *Backup) Promote(c Clock) (*Shard, error) {
	if b.lacking || b.cut != c {
		return nil, invalid("partition %d: backup holds cut %d, not %d", b.id, b.cut, c)
	}
	return shardOf(b.schema, b.id, c, b.rows.clone()), nil
}
