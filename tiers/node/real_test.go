package node

import (
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The real control plane and the real data plane together: two machines train, partitions and splits move, a cut is committed, one machine
// dies without warning, and the other one ends with the undisturbed result.
func TestOnTheRealDataPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains on real nodes: leave -short out")
	}
	t.Run("plaintext", func(t *testing.T) { onTheRealDataPlane(t, nil) })
	t.Run("TLS", func(t *testing.T) { onTheRealDataPlane(t, newSecured(t)) })
}

func onTheRealDataPlane(t *testing.T, s *secured) {
	real(t, s, func(t *testing.T, w *world) {
		const until = 60
		calm := func(m *machine) { m.flops = 300 * testWork } // six splits: 20 ms each clock
		machines := map[ps.ServerID]*machine{"i-1": w.start("i-1", calm), "i-2": w.start("i-2", calm)}
		peers := map[ps.ServerID]string{}
		for i, id := range []ps.ServerID{"i-1", "i-2"} {
			hello := w.awaitReport(id, func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok }).(tiers.Hello)
			peers[id] = hello.Address
			w.do(id, w.welcome(ps.Incarnation(i+1), until))
			w.do(id, tiers.Load{Splits: []ps.Split{0, 1, 2, 3, 4, 5}})
		}
		everything := []ps.Partition{0, 1, 2, 3, 4}
		route := ps.Route{Version: 1, Owner: each5("i-1"), Backup: each5("i-1")}
		w.do("i-1", tiers.BackUp{Partitions: everything})
		w.do("i-1", tiers.Own{Partitions: everything})
		announce := func() {
			for id := range machines {
				w.do(id, tiers.SetRoute{Route: route, Peers: peers})
			}
		}
		announce()
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		w.awaitClock(3)

		// Half of the splits and three partitions go to the second machine.
		released := w.do("i-1", tiers.Release{Splits: []ps.Split{1, 3, 5}}).(tiers.Released)
		w.do("i-2", tiers.Assign(released))
		for _, p := range []ps.Partition{0, 2, 4} {
			w.do("i-1", tiers.MoveOut{Partition: p, To: "i-2", Address: peers["i-2"]})
			route.Owner[p] = "i-2"
		}
		route.Version++
		announce()

		var cut ps.Clock
		for id := range machines {
			cut = max(cut, w.do(id, tiers.Park{}).(tiers.Parked).Begun+1)
		}
		for id := range machines {
			if a := w.answer(id, w.order(id, tiers.NameCut{Cut: cut})); a.Code != tiers.CodeOK {
				t.Fatalf("naming the cut at %s: %+v", id, a)
			}
		}
		for id := range machines {
			w.do(id, tiers.Unpark{Until: until})
		}
		w.awaitReport("i-1", func(r tiers.Report) bool { h, ok := r.(tiers.CutHeld); return ok && h.Cut == cut })
		for id := range machines {
			w.do(id, tiers.CommitCut{Cut: cut})
		}
		w.awaitClock(cut + 4)

		machines["i-2"].cancel() // without any notice
		<-machines["i-2"].ended
		holdings := w.do("i-1", tiers.FenceGeneration{Generation: 1}).(tiers.Holdings)
		if len(holdings.Backups) != 5 || holdings.Backups[0].Cut != cut {
			t.Fatalf("the survivor holds %+v; want all backups at cut %d", holdings, cut)
		}
		route = ps.Route{Version: 3, Owner: each5("i-1"), Backup: each5("i-1")}
		w.do("i-1", tiers.Recover{Generation: 1, Cut: cut, Route: route,
			Peers: map[ps.ServerID]string{"i-1": peers["i-1"]}, Splits: []ps.Split{0, 1, 2, 3, 4, 5}})
		w.awaitReport("i-1", func(r tiers.Report) bool {
			p, ok := r.(tiers.Progress)
			return ok && p.Generation == 1 && p.Clock == until
		})

		client, err := NewDataClient(ClientConfig{Self: "test", Job: "toy", Schema: w.schema, TLS: s.readerTLS(), Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		client.SetRoute(1, route, peers)
		w.compare(until, client, 1)
		if s != nil {
			strangers(t, w, peers["i-1"])
			w.compare(until, client, 1) // nothing was lost
			w.do("i-1", tiers.TakeStock{})
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		w.do("i-1", tiers.Stop{Why: "done"})
		<-machines["i-1"].ended
		for id, m := range machines {
			if m.outcome != nil {
				t.Errorf("%s ended with %v", id, m.outcome)
			}
		}
	})
}

func each5(id ps.ServerID) []ps.ServerID { return []ps.ServerID{id, id, id, id, id} }
