package hostagent

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/kin"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

func TestMain(m *testing.M) {
	confine.Main()
	goleak.VerifyTestMain(m)
}

// slotProcess records its environment and that it runs. If its user data say so, it uses more memory than a slot has.
const slotProcess = `env > "$TIERML_SLOT/environment"; setsid sleep 1000 &
grep -q hungry "$TIERML_SLOT/slot.json" && dd if=/dev/zero of=/dev/null bs=1000000000 count=1 && exit 0
grep -q hungry "$TIERML_SLOT/slot.json" && exit 3; exec sleep 1000`

// Two jobs have slots on one host. Each process has a directory of its own and nothing of the host's environment. The one that exceeds its
// slot's memory ends, and the other does not; it learns of the host's end, and ends when its slot is returned.
func TestSlotsOfAHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is limited on Linux only")
	}
	t.Setenv("SECRET_OF_THE_HOST", "x")
	pool := market.Pool{Provider: "memory", Region: "r", Zone: "r-a", Type: "host", Class: market.OnDemand}
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	brain, err := hosts.New(hosts.Config{
		Settings: tempo.Of(tempo.Place{Speed: 1, Boot: time.Second, Notice: time.Minute, DeadAfter: time.Hour}), Run: "shared", Policy: bidding.OnDemand{},
		Reliable: fleet.Reliable{Pool: pool, Type: market.InstanceType{Name: "host", VCPU: 4, MemoryMiB: 1000, OnDemand: market.Dollar}, Count: 1},
		Types:    []market.InstanceType{{Name: "slot", VCPU: 2, MemoryMiB: 200}}, Rules: rules, Patience: time.Hour, KeepEmpty: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, home := t.TempDir(), t.TempDir()
	table, err := desk.Open(desk.Config{Brain: brain, Directory: dir, Clock: clock.Real(), Secret: "secret", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	server := httptest.NewServer(table.Handler())
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	if err := table.Announce(address, ""); err != nil {
		t.Fatal(err)
	}
	step := func(events ...elasticity.Event) []elasticity.Action { return table.Step(time.Now(), events...) }
	slot := pool
	slot.Type = "slot"
	job := desk.Connect(dir, "job", "memory", hosts.Size{}, time.Second, slog.New(slog.DiscardHandler))
	defer job.Close()
	modest, err := job.Launch(t.Context(), provisioner.Request{Token: "modest", Pool: slot, Count: 1, UserData: "modest"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Launch(t.Context(), provisioner.Request{Token: "hungry", Pool: slot, Count: 1, UserData: "hungry"}); err != nil {
		t.Fatal(err)
	}
	var token string
	for _, a := range step(elasticity.Wake{}) {
		if l, ok := a.(elasticity.Launch); ok {
			token = l.Request.Token
		}
	}
	step(elasticity.Launched{Token: token, Instances: []provisioner.Instance{{ID: "i-1", Pool: pool, Token: token, State: provisioner.Running,
		Launched: time.Now().Truncate(time.Second)}}})
	ended, goes := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- Run(t.Context(), Config{ID: "i-1", Host: UserData{Desk: address, Key: desk.HostKey("secret", token), Launch: token, Orphan: 60},
			Command: []string{"sh", "-c", slotProcess}, Home: home, Env: []string{"GIVEN=1"}, Flops: 100, Log: slog.New(slog.DiscardHandler), EndsWarned: true, Watch: func(ctx context.Context, f func(tiers.Warned)) error {
				f(tiers.Warned{Rebalance: true})
				<-goes
				f(tiers.Warned{Deadline: time.Now().Add(time.Hour)})
				return nil
			}})
	}()
	var all map[string]provisioner.Instance
	until := func(what string, there func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !there(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s: %+v", what, all)
			}
			list, err := job.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = map[string]provisioner.Instance{}
			for _, i := range list {
				all[i.Token] = i
			}
		}
	}
	var noted []string
	until("what the host's provider warns of", func() bool {
		for _, a := range step(elasticity.Wake{}) {
			if r, ok := a.(elasticity.Record); ok && r.Entry.Kind == journal.Notice {
				noted = append(noted, r.Entry.Instance+": "+r.Entry.Why)
			}
		}
		return len(noted) > 0
	})
	if len(noted) != 1 || !strings.HasPrefix(noted[0], "i-1: rebalance recommendation") {
		t.Errorf("the shared hosts were warned of %q", noted)
	}
	until("the end of the process that takes too much", func() bool { return all["hungry"].State == provisioner.Terminated })
	// In a group of cgroup v2 its shell ends with it.
	if why := all["hungry"].Reason; !strings.Contains(why, "exit status 3") && !strings.Contains(why, "as its slot's 200 MiB were full") {
		t.Errorf("it ended because %q", why)
	}
	own := filepath.Join(home, string(modest[0].ID))
	until("the processes of the other", func() bool {
		text, _ := os.ReadFile(filepath.Join(own, "environment"))
		return len(text) > 0 && len(kin.Of(own)) >= 2
	})
	if n := len(kin.Of(filepath.Join(home, string(all["hungry"].ID)))); n > 0 {
		t.Errorf("slot hungry has %d processes", n)
	}
	text, err := os.ReadFile(filepath.Join(own, "environment"))
	for _, words := range []string{"HOME=" + own, "GIVEN=1", "TIERML_FLOPS=50\n", "GOMEMLIMIT="} {
		if err != nil || !strings.Contains(string(text), words) {
			t.Errorf("the environment of a slot lacks %q: %v\n%s", words, err, text)
		}
	}
	if strings.Contains(string(text), "SECRET_OF_THE_HOST") {
		t.Errorf("a slot has the host's environment:\n%s", text)
	}
	if i := all["modest"]; i.State == provisioner.Terminated {
		t.Errorf("the other slot has ended, too: %+v", i)
	}
	deadline := time.Now().Add(30 * time.Second).UTC().Truncate(time.Second)
	step(elasticity.Warned{ID: "i-1", Deadline: deadline})
	watching, heard := context.WithTimeout(t.Context(), time.Minute)
	var told time.Time
	err = Slot(own).Watch(watching, func(w tiers.Warned) { told = w.Deadline; heard() })
	heard()
	if err != nil || !told.Equal(deadline) {
		t.Errorf("the host goes at %s, the slot heard of %s: %v", deadline, told, err)
	}
	if err := job.Terminate(t.Context(), modest[0].ID); err != nil {
		t.Fatal(err)
	}
	until("the end of the slot that was given back", func() bool { return all["modest"].State == provisioner.Terminated })
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("the slot's directory is left: %v", err)
	}
	close(goes) // and it ends by itself: it has no slots any more
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A host whose desk has gone for good ends by itself: otherwise it would never be returned.
func TestNoDesk(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	err := Run(t.Context(), Config{ID: "i-1", Host: UserData{Desk: gone.Listener.Addr().String(), Orphan: 1}, Home: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "no desk for 1 s") {
		t.Errorf("it ended by %v", err)
	}
}
