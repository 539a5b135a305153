package provisionertest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Neighbour is another customer in a pool, who uses up capacity for the exam. Its SetFree is the Subject's.
type Neighbour struct {
	T        testing.TB
	Cloud    provisioner.Cloud // in its own cluster
	Pool     market.Pool
	Bid      market.USD // high enough to get machines
	Capacity int        // of the pool

	held []provisioner.InstanceID
}

// SetFree leaves n machines free.
func (b *Neighbour) SetFree(n int) {
	b.T.Helper()
	want := b.Capacity - n
	if len(b.held) > want {
		if err := b.Cloud.Terminate(b.T.Context(), b.held[want:]...); err != nil {
			b.T.Fatal(err)
		}
		b.awaitEnd(b.held[want:])
		b.held = b.held[:want]
		return
	}
	got, err := b.Cloud.Launch(b.T.Context(), provisioner.Request{Token: rand.Text(), Pool: b.Pool, Bid: b.Bid, Count: want - len(b.held)})
	if err != nil {
		b.T.Fatal(err)
	}
	b.held = append(b.held, ids(got)...)
}

// awaitEnd waits until the provider has reclaimed the machines.
func (b *Neighbour) awaitEnd(gone []provisioner.InstanceID) {
	b.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(pollEvery / 4) {
		listed, err := b.Cloud.List(b.T.Context())
		if err != nil {
			b.T.Fatal(err)
		}
		if !slices.ContainsFunc(listed, func(i provisioner.Instance) bool {
			return slices.Contains(gone, i.ID) && i.State != provisioner.Terminated
		}) {
			return
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("%v do not end", gone)
		}
	}
}
