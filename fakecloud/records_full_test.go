package fakecloud

import (
	"bytes"
	"syscall"
	"testing"
	"time"
)

// smallDisk has room for a few bytes.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(p []byte) (int, error) {
	if n := min(len(p), d.room); n < len(p) {
		d.room = 0
		d.Buffer.Write(p[:n])
		return n, syscall.ENOSPC
	}
	d.room -= len(p)
	return d.Buffer.Write(p)
}

func (d *smallDisk) Close() error { return nil }

// A record that the disk has accepted in part is completed before the next one.
func TestRecordsOnAFullDisk(t *testing.T) {
	disk := &smallDisk{room: 50}
	w := &recorder{file: disk}
	at := time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)
	for n := range 3 {
		if err := w.write(Record{T: at.Add(time.Duration(n) * time.Minute), Kind: Tick}); (err != nil) != (n == 1) {
			t.Errorf("record %d: %v", n, err)
		}
		if n == 1 {
			disk.room = 1000
		}
	}
	if records, err := ReadRecords(&disk.Buffer); err != nil || len(records) != 3 {
		t.Errorf("%d records, %v", len(records), err)
	}
}
