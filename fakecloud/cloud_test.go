package fakecloud

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
)

// TestMain also plays the cloud that TestKilledCloud kills.
func TestMain(m *testing.M) {
	if lines := os.Getenv(neighbourArgs); lines != "" {
		ask(lines)
		return
	}
	if dir := os.Getenv("FAKECLOUD_TEST_DIR"); dir != "" {
		runVictim(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var spotPool = market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.xlarge", Class: market.Spot}

// testConfig sells one type at 5 cents, and for a dollar from an hour after t0 on. Market time is wall-clock time.
func testConfig() Config {
	book, err := market.Rules("ec2-2017")
	if err != nil {
		panic(err)
	}
	return Config{
		Clock:  clock.Mapping{Market: t0, Wall: time.Now(), Speed: 1},
		Region: "us-west-1",
		Types:  []InstanceType{{InstanceType: market.InstanceType{Name: "c3.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 7680, OnDemand: 239 * market.Dollar / 1000}, FLOPS: 1.6e6}},
		Prices: map[market.Pool]*market.History{spotPool: market.NewHistory([]market.PricePoint{
			{At: t0.Add(-time.Hour), Price: 5 * market.Dollar / 100}, {At: t0.Add(time.Hour), Price: market.Dollar},
		})},
		Rules:  book,
		Notice: 100 * time.Millisecond, Boot: 10 * time.Millisecond, Tick: 20 * time.Millisecond, Seed: 1,
	}
}

// testCloud is a cloud that runs until the end of the test, or until stop.
type testCloud struct {
	*Cloud
	t    *testing.T
	stop func()
}

func run(t *testing.T, change func(*Config)) *testCloud {
	t.Helper()
	c := testConfig()
	c.Records = filepath.Join(t.TempDir(), "cloud.jsonl")
	c.LogDir = t.TempDir()
	if change != nil {
		change(&c)
	}
	cloud, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cloud.Run(ctx); close(ended) }()
	tc := &testCloud{Cloud: cloud, t: t}
	tc.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(tc.stop)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return tc
}

func (c *testCloud) query(pairs ...string) string {
	c.t.Helper()
	form := url.Values{"Version": {"2016-11-15"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	resp, err := http.PostForm(c.Endpoint(), form)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %d %s %v", form.Get("Action"), resp.StatusCode, body, err)
	}
	return string(body)
}

// launch buys spot machines for a dime and returns their ids.
func (c *testCloud) launch(count int) []string {
	c.t.Helper()
	n := strconv.Itoa(count)
	body := c.query("Action", "RunInstances", "ImageId", "ami-1", "InstanceType", "c3.xlarge", "MinCount", n, "MaxCount", n,
		"InstanceMarketOptions.MarketType", "spot", "InstanceMarketOptions.SpotOptions.MaxPrice", "0.10", "UserData", "aGVsbG8=")
	var v struct {
		IDs []string `xml:"instancesSet>item>instanceId"`
	}
	if err := xml.Unmarshal([]byte(body), &v); err != nil || len(v.IDs) != count {
		c.t.Fatalf("%s: %v", body, err)
	}
	return v.IDs
}

func (c *testCloud) instance(id string) InstanceView {
	for _, i := range c.Instances() {
		if i.ID == id {
			return i
		}
	}
	return InstanceView{}
}

// wind advances market time at once.
func (c *testCloud) wind(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Clock.Market = c.config.Clock.Market.Add(d)
	c.wake()
}

func (c *testCloud) log(id string) string {
	b, err := os.ReadFile(filepath.Join(c.config.LogDir, id+".log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Error(err)
	}
	return string(b)
}

// await polls until the condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *testCloud) awaitState(id, state string) {
	c.t.Helper()
	await(c.t, id+" is "+state, func() bool { return c.instance(id).State == state })
}

// bash returns a machine that prints its process and then waits.
func bash(script string) []string { return []string{"/bin/sh", "-c", script} }

const printAndWait = `echo pid $$; env | sort; exec sleep 1000`

// pid reads what printAndWait printed.
func (c *testCloud) pid(id string) int {
	c.t.Helper()
	var n int
	await(c.t, id+" has printed its process id", func() bool {
		line, _, whole := strings.Cut(c.log(id), "\n")
		digits, ok := strings.CutPrefix(line, "pid ")
		n, _ = strconv.Atoi(digits)
		return whole && ok && n > 0
	})
	return n
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func (c *testCloud) metadata(endpoint, path string) (int, string) {
	c.t.Helper()
	put, _ := http.NewRequest(http.MethodPut, endpoint+"/latest/api/token", nil)
	put.Header.Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
	get, _ := http.NewRequest(http.MethodGet, endpoint+"/latest/"+path, nil)
	for _, r := range []*http.Request{put, get} {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if r == get {
			return resp.StatusCode, string(body)
		}
		get.Header.Set("X-aws-ec2-metadata-token", string(body))
	}
	panic("unreachable")
}

func records(t *testing.T, path string) []Record {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	list, err := ReadRecords(file)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLifeOfAnInstance(t *testing.T) {
	t.Setenv("A_SECRET_OF_THE_CLOUD", "yes")
	c := run(t, func(c *Config) { c.Command, c.Env = bash(printAndWait), []string{"EXTRA=1"} })
	id := c.launch(1)[0]
	c.awaitState(id, "running")
	pid := c.pid(id)
	await(t, "metadata is there", func() bool { return c.instance(id).Metadata != "" })
	endpoint := c.instance(id).Metadata
	if code, body := c.metadata(endpoint, "user-data"); code != http.StatusOK || body != "hello" {
		t.Errorf("user data: %d %q", code, body)
	}
	await(t, "the environment is printed", func() bool { return strings.Contains(c.log(id), "TIERML_FLOPS=") })
	log := c.log(id)
	for _, want := range []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + endpoint, "TIERML_CLOCK=" + c.config.Clock.String(), "TIERML_FLOPS=1600000", "EXTRA=1"} {
		if !strings.Contains(log, want+"\n") {
			t.Errorf("the environment lacks %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "A_SECRET_OF_THE_CLOUD") {
		t.Error("the cloud's own environment leaks into its instances")
	}
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process group %d of process %d, %v", group, pid, err)
	}

	c.query("Action", "TerminateInstances", "InstanceId.1", id)
	ended := c.instance(id).Ended
	if ended.IsZero() || ended.Nanosecond() != 0 {
		t.Errorf("ended %v: want whole seconds, at once", ended)
	}
	c.awaitState(id, "terminated")
	if alive(pid) {
		t.Error("its process lives on")
	}
	if code, _ := c.metadata(endpoint, "meta-data/instance-id"); code != 0 {
		t.Errorf("its metadata endpoint lives on: %d", code)
	}
	var kinds []string
	for _, r := range records(t, c.config.Records) {
		if r.ID == id {
			kinds = append(kinds, string(r.Kind)+" "+string(r.By)+" "+r.Reason)
		}
	}
	if got := strings.Join(kinds, ", "); got != "launch  , end user Client.UserInitiatedShutdown" {
		t.Errorf("records: %s", got)
	}
}

func TestEvictionByPrice(t *testing.T) {
	c := run(t, func(c *Config) {
		c.Notice = 2 * time.Minute
		c.Command = bash(`trap '' TERM; ` + printAndWait)
	})
	id := c.launch(1)[0]
	pid := c.pid(id)
	await(t, "metadata is there", func() bool { return c.instance(id).Metadata != "" })
	endpoint := c.instance(id).Metadata
	if code, _ := c.metadata(endpoint, "meta-data/spot/instance-action"); code != http.StatusNotFound {
		t.Errorf("a notice before the price has risen: %d", code)
	}
	c.wind(time.Hour)
	var notice string
	await(t, "the notice is in the metadata", func() bool {
		code, body := c.metadata(endpoint, "meta-data/spot/instance-action")
		notice = body
		return code == http.StatusOK
	})
	deadline := t0.Add(time.Hour + 2*time.Minute)
	if want := `{"action":"terminate","time":"` + deadline.Format(time.RFC3339) + `"}`; notice != want {
		t.Errorf("notice %s, want %s", notice, want)
	}
	if !alive(pid) {
		t.Error("its process ended before the deadline")
	}
	c.wind(2 * time.Minute)
	c.awaitState(id, "terminated")
	if got := c.instance(id); !got.Ended.Equal(deadline) || got.By != market.ByProvider || got.Reason != "Server.SpotInstanceTermination" {
		t.Errorf("%+v, want ended at %v", got, deadline)
	}
	if alive(pid) {
		t.Error("its process lives on")
	}
	bill, err := c.Bill()
	if err != nil || len(bill.Lines) != 1 || !bill.Lines[0].Charges[len(bill.Lines[0].Charges)-1].Free {
		t.Errorf("bill %+v, %v: the interrupted hour is free", bill, err)
	}
}

func TestProcessThatEndsItself(t *testing.T) {
	c := run(t, func(c *Config) { c.Command = bash("setsid sleep 1000 & echo pid $!; exit 3") })
	id := c.launch(1)[0]
	c.awaitState(id, "terminated")
	if got := c.instance(id); got.By != market.ByUser || got.Reason != "Client.InstanceInitiatedShutdown" {
		t.Errorf("%+v", got)
	}
	if _, known := homesInUse(); known && aliveNotZombie(c.pid(id)) {
		t.Error("the instance is terminated, and what it had started in a session of its own lives on")
	}
}

// aliveNotZombie ignores processes not waited for yet: we cannot make an orphan's parent wait.
func aliveNotZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return alive(pid)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestStubbornProcessIsKilledAfterItsGrace(t *testing.T) {
	c := run(t, func(c *Config) {
		c.Grace = 50 * time.Millisecond
		c.Command = bash(`trap 'echo asked' TERM; echo pid $$; while :; do sleep 0.01; done`)
	})
	id := c.launch(1)[0]
	pid := c.pid(id)
	c.query("Action", "TerminateInstances", "InstanceId.1", id)
	c.awaitState(id, "terminated")
	if alive(pid) {
		t.Error("its process lives on")
	}
}

func TestTheEndOfTheCloudEndsItsInstances(t *testing.T) {
	c := run(t, func(c *Config) { c.Command = bash(printAndWait) })
	ids := c.launch(3)
	var pids []int
	for _, id := range ids {
		pids = append(pids, c.pid(id))
	}
	c.stop()
	for n, pid := range pids {
		if alive(pid) {
			t.Errorf("process of %s lives on", ids[n])
		}
	}
	list := records(t, c.config.Records)
	if last := list[len(list)-1]; last.Kind != Closed {
		t.Errorf("last record %+v", last)
	}
	bill, err := NewBill(list, c.config.Rules, c.config.Histories())
	if err != nil || bill.Total != usd(t, "0.15") {
		t.Errorf("bill %v, %v; want three begun hours", bill.Total, err)
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	c := run(t, func(c *Config) { c.Command = []string{os.DevNull} })
	id := c.launch(1)[0]
	c.awaitState(id, "terminated")
}

// runVictim runs a cloud in its own process. It prints its endpoint.
func runVictim(dir string) {
	c := testConfig()
	c.Records, c.LogDir = filepath.Join(dir, "cloud.jsonl"), dir
	c.Command = bash(printAndWait)
	cloud, err := New(c)
	if err != nil {
		panic(err)
	}
	os.WriteFile(filepath.Join(dir, "endpoint"), []byte(cloud.Endpoint()+"\n"), 0o644)
	panic(cloud.Run(context.Background()))
}

func TestKilledCloud(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), "FAKECLOUD_TEST_DIR="+dir)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			victim.Process.Kill()
			victim.Wait()
		}
	}()
	var endpoint string
	await(t, "the cloud is up", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "endpoint"))
		endpoint = strings.TrimSpace(string(b))
		return bytes.HasSuffix(b, []byte("\n"))
	})
	form := url.Values{"Action": {"RunInstances"}, "ImageId": {"ami-1"}, "InstanceType": {"c3.xlarge"}, "MinCount": {"1"}, "MaxCount": {"1"}}
	resp, err := http.PostForm(endpoint, form)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	var id string
	var pid int
	await(t, "the instance runs", func() bool {
		logs, _ := filepath.Glob(filepath.Join(dir, "i-*.log"))
		if len(logs) == 0 {
			return false
		}
		id = strings.TrimSuffix(filepath.Base(logs[0]), ".log")
		b, _ := os.ReadFile(logs[0])
		line, _, whole := strings.Cut(string(b), "\n")
		pid, _ = strconv.Atoi(strings.TrimPrefix(line, "pid "))
		return whole && pid > 0
	})
	ticks := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "cloud.jsonl"))
		return strings.Count(string(b), `"kind":"tick"`)
	}
	before := ticks()
	await(t, "it ticks", func() bool { return ticks() > before })
	victim.Process.Kill()
	victim.Wait()
	killed = true

	if !alive(pid) {
		t.Error("the instance died with its cloud; it is to notice by itself")
	}
	defer syscall.Kill(-pid, syscall.SIGKILL)
	list := records(t, filepath.Join(dir, "cloud.jsonl"))
	c := testConfig()
	bill, err := NewBill(list, c.Rules, c.Histories())
	if err != nil || len(bill.Lines) != 1 || bill.Lines[0].ID != id || bill.Total != usd(t, "0.239") {
		t.Errorf("bill %+v, %v", bill, err)
	}
	if last := list[len(list)-1]; !bill.AsOf.Equal(last.T) || bill.Lines[0].By != market.Running {
		t.Errorf("as of %v, last record %v: %+v", bill.AsOf, last.T, bill.Lines[0])
	}

	if _, known := homesInUse(); !known {
		return
	}
	next := run(t, func(c *Config) { c.Records = filepath.Join(dir, "cloud.jsonl") })
	next.stop()
	if homes, _ := filepath.Glob(filepath.Join(dir, "tierml-fakecloud-*")); aliveNotZombie(pid) || len(homes) > 0 {
		t.Errorf("the cloud was resumed and ended; of the killed one's instances are left %v, and the process: %v", homes, aliveNotZombie(pid))
	}
}

func TestScriptHappensByItself(t *testing.T) {
	c := run(t, func(c *Config) {
		c.Script = Script{{Offset: time.Hour, Do: EvictNow, Target: "all"}}
	})
	id := c.launch(1)[0]
	c.wind(time.Hour)
	c.awaitState(id, "terminated")
	if got := c.instance(id); !got.Ended.Equal(t0.Add(time.Hour)) {
		t.Errorf("ended %v, want an hour after the start", got.Ended)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no region":    func(c *Config) { c.Region = "" },
		"other region": func(c *Config) { c.Region = "eu-west-1" },
		"no rules":     func(c *Config) { c.Rules = nil },
		"no speed":     func(c *Config) { c.Clock.Speed = 0 },
		"unknown type": func(c *Config) { c.Types = nil },
		"type twice":   func(c *Config) { c.Types = append(c.Types, c.Types[0]) },
		"notice":       func(c *Config) { c.Notice = -time.Second },
		"script":       func(c *Config) { c.Script = Script{{Do: Kill, Target: "oldest", Of: "x9.huge"}} },
		"step":         func(c *Config) { c.Script = Script{{Do: "explode"}} },
		"capacity":     func(c *Config) { c.Capacity = map[market.Pool]int{{Provider: "gce"}: 1} },
		"records":      func(c *Config) { c.Records = os.DevNull + "/cloud.jsonl" },
		"listen":       func(c *Config) { c.Listen = "nowhere" },
		"everywhere":   func(c *Config) { c.Listen = "0.0.0.0:0" },
	} {
		c := testConfig()
		change(&c)
		if cloud, err := New(c); err == nil {
			cloud.listener.Close()
			t.Errorf("%s: taken", name)
		}
	}
}
