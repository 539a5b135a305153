package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// A job file that does not name its cluster shares the default one with everybody in the account. No command uses another user's job server
// there: none sends it the job or a token, or ends it.
func TestServersOfOthersAreLeftAlone(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	fake := fakecloudtest.Start(t, fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Zones: []string{"us-west-1a"}, Rules: rules,
		Types: []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: "c5.large", VCPU: 2, MemoryMiB: 4096, OnDemand: market.Dollar / 10}}}})
	serverOf := func(owner string) string {
		t.Helper()
		cloud, err := ec2.New(t.Context(), ec2.Config{Region: "us-west-1", Cluster: "tierml", Owner: owner, Endpoint: fake.Endpoint(), ImageID: "ami-1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cloud.Close)
		c, err := cloud.StartController(t.Context(), provisioner.ControllerRequest{Token: "of" + owner, Type: "c5.large", Zone: "us-west-1a"})
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	// call returns what a command prints, and to which machines it opened a tunnel.
	call := func(settings string, args ...string) (code int, printed, reached string) {
		t.Helper()
		dir := t.TempDir()
		file := filepath.Join(dir, "job.yaml")
		if !strings.Contains(settings, "controller:") {
			settings += ", controller: {role: r, tunnel: 'touch {local} {instance}.reached'}"
		}
		if err := os.WriteFile(file, []byte("name: small\ncloud: ec2\nresources: {count: 1, any_of: [{type: c5.large}], zones: [us-west-1a]}\ntrain: {app: mf, data: 's3://b/x', clocks: 4}\n"+
			"ec2: {region: us-west-1, image: ami-1, endpoint: "+fake.Endpoint()+settings+", program: {url: 's3://b/t', sha256: "+strings.Repeat("0a", 32)+
			"}, checkpoints: 's3://b/c'}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		var out bytes.Buffer
		code = tierml(append(args, file), strings.NewReader(""), &out, &out)
		found, _ := filepath.Glob(filepath.Join(dir, "*.reached"))
		for i := range found {
			found[i] = strings.TrimSuffix(filepath.Base(found[i]), ".reached")
		}
		return code, out.String(), strings.Join(found, " ")
	}
	bobs := serverOf("bob")
	for _, settings := range []string{"", ", owner: ann"} {
		for _, args := range [][]string{{"run", "-y"}, {"ps", "--server"}, {"server", "tunnel"}, {"server", "start", "-y"},
			{"server", "stop", "-y"}, {"server", "stop", "-y", "--force"}} {
			code, out, reached := call(settings, args...)
			if code != cli.ExitUsage || reached != "" || !strings.Contains(out, bobs+" may be somebody else's job server") || !strings.Contains(out, "belongs to bob") ||
				!strings.Contains(out, "write cluster: tierml below ec2:") {
				t.Errorf("%v with%q: exit code %d, reached %q, printed\n%s", args, settings, code, reached, out)
			}
		}
	}
	for name, settings := range map[string]string{"the owner's": ", owner: bob", "the cluster is named": ", cluster: tierml",
		"it is named itself": ", controller: {instance: " + bobs + ", tunnel: 'touch {local} {instance}.reached'}"} {
		if _, out, reached := call(settings, "run", "-y"); reached != bobs {
			t.Errorf("%s: reached %q, printed\n%s", name, reached, out)
		}
	}
	anns := serverOf("ann")
	if _, out, reached := call(", owner: ann", "run", "-y"); reached != anns {
		t.Errorf("reached %q, not %s, printed\n%s", reached, anns, out)
	}

	// The user who started one, or submitted a job to it, finds it again without a name or an owner.
	shelf, err := reach.UserRegistry()
	if err != nil {
		t.Fatal(err)
	}
	if err := shelf.Keep(reach.Place{Cloud: "ec2", Region: "us-west-1", Cluster: "tierml", Instance: anns}, ""); err != nil {
		t.Fatal(err)
	}
	if _, out, reached := call("", "run", "-y"); reached != anns {
		t.Errorf("reached %q, not %s, printed\n%s", reached, anns, out)
	}
	if code, out, _ := call(", owner: bob, cluster: tierml, controller: {instance: "+bobs+", tunnel: 'touch {local} {instance}.reached'}", "server", "stop", "-y", "--force"); code != 0 || !strings.Contains(out, "It has ended.") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}

	// A start whose answer was lost is repeated: it gets the same machine, and no machine that it finds.
	carols := serverOf("carol")
	missing := ", controller: {role: r, type: c5.large, tunnel: 'no-such-program {local} {instance}'}"
	lost := reach.Place{Cloud: "ec2", Region: "us-west-1", Cluster: "tierml", Port: 7071, Tunnel: "no-such-program {local} {instance}"}
	if err := errors.Join(shelf.Keep(lost, ""), shelf.KeepToken(lost, access.Random())); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := call(missing, "server", "start", "-y"); !strings.Contains(out, "EC2 has i-") || strings.Contains(out, "EC2 has "+carols) || strings.Contains(out, "EC2 has "+anns) {
		t.Errorf("printed\n%s", out)
	}
}
