package jobrun

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

const killedCloud = `{"t":"2014-04-01T00:00:00.5Z","kind":"open","region":"us-west-1","rules":"ec2-2017"}
{"t":"2014-04-01T00:10:00.9Z","kind":"launch","id":"i-1","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/on-demand","launched":"2014-04-01T00:10:00Z"}
{"t":"2014-04-01T00:12:00.9Z","kind":"launch","id":"i-2","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/spot","bid":"0.239","launched":"2014-04-01T00:12:00Z"}
{"t":"2014-04-01T00:12:00.9Z","kind":"launch","id":"i-3","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/spot","bid":"0.239","launched":"2014-04-01T00:12:00Z"}
{"t":"2014-04-01T00:20:00Z","kind":"end","id":"i-2","ended":"2014-04-01T00:20:00Z","by":"provider","reason":"Server.SpotInstanceTermination"}
{"t":"2014-04-01T00:30:00.7Z","kind":"tick"}
`

// Machines of a killed cloud are closed according to its own bill. A machine that was bought and not recorded belongs to a launch whose
// answer is missing; one that the journal has closed is not reported again.
func TestMachinesOfAKilledCloud(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, rundir.CloudFile), []byte(killedCloud), 0o644); err != nil {
		t.Fatal(err)
	}
	spot := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.xlarge", Class: market.Spot}
	past := &elasticity.Past{Ledger: elasticity.Ledger{
		Known:    map[string]bool{"i-1": true, "i-2": true},
		Machines: []elasticity.PastMachine{{Instance: provisioner.Instance{ID: "i-1", Token: "a-1"}}},
		Open:     []elasticity.PastLaunch{{Token: "a-2", Pool: spot, Count: 1}},
	}}
	r := &session{cfg: Config{Job: &config.Job{}, Directory: dir, Past: past}}
	got, err := r.gone()
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v; want i-1 and i-3", got, err)
	}
	end := time.Date(2014, 4, 1, 0, 30, 0, 0, time.UTC)
	for i, want := range []struct{ id, token string }{{"i-1", "a-1"}, {"i-3", "a-2"}} {
		if g := got[i]; string(g.ID) != want.id || g.Token != want.token || !g.Ended.Equal(end) || g.EndedBy != market.ByUser || g.State != provisioner.Terminated {
			t.Errorf("%+v; want %v, ended when the cloud was last alive", g, want)
		}
	}
	if past.Open[0].Count != 1 {
		t.Error("what is known of the past was changed")
	}
	r.cfg.Endpoint = "http://somewhere"
	if got, err := r.gone(); got != nil || err != nil {
		t.Errorf("a cloud that lives on tells of its machines itself: %v %v", got, err)
	}
}

// A restarted controller admits its predecessor's machines; no other does.
func TestAdmissionOutlivesTheController(t *testing.T) {
	dir := t.TempDir()
	first, err := openState(dir, &config.Job{})
	if err != nil {
		t.Fatal(err)
	}
	first.Controller, first.Dataset = "127.0.0.1:1", &apps.Dataset{Splits: 3}
	if err := first.write(dir); err != nil {
		t.Fatal(err)
	}
	second, err := openState(dir, &config.Job{})
	if err != nil || second.Secret != first.Secret || second.Controller != first.Controller || second.Dataset.Splits != 3 {
		t.Fatalf("%+v, %v; want %+v", second, err, first)
	}
	if info, err := os.Stat(filepath.Join(dir, StateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state has a secret in it, and mode %v, %v", info.Mode(), err)
	}
	token := admission{first.Secret}.issue("a-1")
	if err := (admission{second.Secret}).accept(tiers.Hello{Token: token}); err != nil {
		t.Error(err)
	}
	other, err := openState(t.TempDir(), &config.Job{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by    admission
		token string
	}{{admission{other.Secret}, token}, {admission{second.Secret}, token + "0"}, {admission{second.Secret}, ""}, {admission{}, admission{}.issue("a-1")}} {
		if c.by.accept(tiers.Hello{Token: c.token}) == nil {
			t.Errorf("%q was accepted", c.token)
		}
	}
}

// A reliable tier that the job leaves open follows load for as long as the run lasts, even if a later controller has its type and count
// from the journal; a declared one never does.
func TestWhichTiersGrow(t *testing.T) {
	dir := t.TempDir()
	open := &config.Job{Policy: "tierml", Reliable: config.Reliable{Count: 1}}
	first, err := openState(dir, open)
	if err == nil {
		err = first.write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	declared := &config.Job{Policy: "tierml", Reliable: config.Reliable{Count: 1, Type: "m5.large"}}
	if later, err := openState(dir, declared); err != nil || !first.Grows || !later.Grows {
		t.Errorf("left open: %v, later %v, %v", first.Grows, later.Grows, err)
	}
	for _, job := range []*config.Job{declared, {Policy: "tierml"}, {Policy: "on-demand", Reliable: config.Reliable{Count: 1}}} {
		if newState(t.TempDir(), job).Grows {
			t.Errorf("the tier of %+v grows", job.Reliable)
		}
	}
}

// Two runs of one name with the same place for checkpoints do not collide there.
func TestCheckpointsHaveAPlaceOfTheirOwn(t *testing.T) {
	job := &config.Job{Checkpoint: config.Checkpoint{To: "s3://bucket/some?region=x"}}
	a, b := newState("/somewhere/runs/demo-1", job), newState("/elsewhere/runs/demo-1", job)
	if a.Checkpoints == b.Checkpoints || !strings.HasPrefix(a.Checkpoints, "s3://bucket/some/demo-1-") || !strings.HasSuffix(a.Checkpoints, "?region=x") {
		t.Errorf("%s and %s", a.Checkpoints, b.Checkpoints)
	}
	if own := newState("/somewhere/runs/demo-1", &config.Job{}); own.Checkpoints != "/somewhere/runs/demo-1/checkpoints" {
		t.Errorf("%s", own.Checkpoints)
	}
}

// Machines reach a controller by its given name; the next one has the same port.
func TestAControllerIsCalledByItsName(t *testing.T) {
	first, called, err := listenAs("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(first.Addr().String())
	if called != "localhost:"+port {
		t.Errorf("machines call %s, want localhost:%s", called, port)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, again, err := listenAs(called)
	if err != nil || again != called {
		t.Fatalf("the next controller is called at %s, want %s (%v)", again, called, err)
	}
	_ = next.Close()
	other, called, err := listenAs("127.0.0.1:0")
	if err != nil || called != other.Addr().String() {
		t.Fatalf("%s, %v", called, err)
	}
	_ = other.Close()
}
