package fakecloud

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/market"
)

// neighbourArgs in the environment makes this program request addresses, one per line as METHOD ADDRESS BODY, and print the answers.
const neighbourArgs = "FAKECLOUD_TEST_ASK"

// ask plays another user's program.
func ask(lines string) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for line := range strings.Lines(lines) {
		f := append(strings.SplitN(strings.TrimSpace(line), " ", 3), "")
		r, err := http.NewRequest(f[0], f[1], strings.NewReader(f[2]))
		if err != nil {
			fmt.Println(err)
			continue
		}
		r.Header.Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
		r.Header.Set("Metadata-Flavor", "Google")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(f[2], "{") {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := client.Do(r)
		if err != nil {
			fmt.Println("no answer:", err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Printf("%d %s\n", answer.StatusCode, strings.ReplaceAll(string(text), "\n", " "))
	}
}

// nobody is a user that owns nothing.
const nobody = 65534

// askAs makes requests as another user, and returns the answers.
func askAs(t *testing.T, uid uint32, requests []string) []string {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "neighbour-") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	program := filepath.Join(folder, "ask")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = "/"
	cmd.Env = []string{neighbourArgs + "=" + strings.Join(requests, "\n")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("asking as user %d: %v\n%s", uid, err, out)
	}
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests:\n%s", len(answers), len(requests), out)
	}
	return answers
}

// Another user of the host can start no machine, end none, and read neither user data nor the control paths. The same requests by the
// cloud's own user are answered.
func TestAnotherUserOfTheHost(t *testing.T) {
	if !sameuser.Supported {
		t.Skip("this system does not tell whose a connection is: run it on Linux")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user: run it as root")
	}
	t.Run(EC2, func(t *testing.T) {
		c := run(t, nil)
		id := c.launch(1)[0]
		c.awaitState(id, "running")
		const launch = "Action=RunInstances&Version=2016-11-15&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&UserData=e30="
		refusedToNeighbours(t, c, []string{
			"POST " + c.Endpoint() + "/ " + launch,
			"GET " + c.Endpoint() + "/?" + launch,
			"GET " + c.Endpoint() + "/_control/instances",
			"PUT " + c.metadataOf(id) + "/latest/api/token",
			`POST ` + c.Endpoint() + `/_control/do {"step": "kill all"}`,
			"POST " + c.Endpoint() + "/ Action=TerminateInstances&Version=2016-11-15&InstanceId.1=" + id,
		})
	})
	t.Run(GCE, func(t *testing.T) {
		c := run(t, playGCE)
		const zone = "/compute/v1/projects/any/zones/us-central1-a"
		insert := `/instances {"name": "m-%d", "machineType": "zones/us-central1-a/machineTypes/n2-standard-2", "disks": [{"boot": true,` +
			` "initializeParams": {"sourceImage": "projects/any/global/images/any"}}], "networkInterfaces": [{}],` +
			` "metadata": {"items": [{"key": "tierml-user-data", "value": "secret"}]}}`
		ask := askAs(t, 0, []string{"POST " + c.Endpoint() + zone + fmt.Sprintf(insert, 1)})
		if !strings.HasPrefix(ask[0], "200 ") {
			t.Fatal(ask[0])
		}
		c.awaitState("m-1", "running")
		refusedToNeighbours(t, c, []string{
			"POST " + c.Endpoint() + zone + fmt.Sprintf(insert, 2),
			"GET " + c.Endpoint() + zone + "/instances/m-1",
			"GET " + c.metadataOf("m-1") + "/computeMetadata/v1/instance/attributes/tierml-user-data",
			"DELETE " + c.Endpoint() + zone + "/instances/m-1",
		})
	})
}

// playGCE sells machines of Compute Engine.
func playGCE(c *Config) {
	book, err := market.Rules("gce-spot")
	if err != nil {
		panic(err)
	}
	pool := market.Pool{Provider: GCE, Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-2", Class: market.Spot}
	c.Provider, c.Region, c.Rules = GCE, pool.Region, book
	c.Types = []InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 8192, OnDemand: market.Dollar / 10}}}
	c.Prices = map[market.Pool]*market.History{pool: market.NewHistory([]market.PricePoint{{At: t0.Add(-time.Hour), Price: market.Dollar / 50}})}
}

func refusedToNeighbours(t *testing.T, c *testCloud, requests []string) {
	t.Helper()
	machines := func() (states string) {
		for _, i := range c.Instances() {
			states += fmt.Sprintln(i.ID, i.State)
		}
		return states
	}
	before := machines()
	for n, answer := range askAs(t, nobody, requests) {
		if !strings.HasPrefix(answer, "no answer: ") {
			t.Errorf("another user is answered %s\nto %s", answer, requests[n])
		}
	}
	if after := machines(); after != before {
		t.Errorf("another user has changed the machines: before\n%s\nafter\n%s", before, after)
	}
	for n, answer := range askAs(t, 0, requests) {
		if !strings.HasPrefix(answer, "200 ") {
			t.Errorf("the cloud's own user is answered %s\nto %s", answer, requests[n])
		}
	}
}

// A machine finds neither credentials nor settings of the cloud's user: it has its own environment and home.
func TestMachinesHaveAHomeOfTheirOwn(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".aws", "credentials"), []byte("[default]\naws_access_key_id = AKID\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_PROFILE", "mine")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, ".aws", "credentials"))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(home, "key.json"))
	t.Setenv("XDG_CONFIG_HOME", home)
	c := run(t, func(c *Config) {
		c.Command = bash(`ls -la $HOME; echo home $HOME; env; cat ~/.aws/credentials; echo the end; exec sleep 1000`)
	})
	id := c.launch(1)[0]
	await(t, "it has looked", func() bool { return strings.Contains(c.log(id), "the end\n") })
	log := c.log(id)
	for _, secret := range []string{"AKID", home, "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS"} {
		if strings.Contains(log, secret) {
			t.Errorf("the machine finds %s:\n%s", secret, log)
		}
	}
	_, own, _ := strings.Cut(log, "home ")
	own, _, _ = strings.Cut(own, "\n")
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its home %q: %v, %v", own, info, err)
	}
	c.query("Action", "TerminateInstances", "InstanceId.1", id)
	c.awaitState(id, "terminated")
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("its home remains: %v", err)
	}
}
