package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// elsewhere is a network of its own, with one link to this one.
type elsewhere struct {
	t          *testing.T
	name, link string
	address    string // its end of the link
	cut        sync.RWMutex
}

func newElsewhere(t *testing.T) *elsewhere {
	id := os.Getpid() & 0x3fff
	at := func(last int) string { return fmt.Sprintf("198.18.%d.%d", id>>6, id&0x3f<<2+last) }
	e := &elsewhere{t: t, name: fmt.Sprint("tierml-", os.Getpid()), link: fmt.Sprint("tml", os.Getpid()), address: at(2)}
	e.ip("netns", "add", e.name)
	t.Cleanup(func() { e.ip("netns", "del", e.name) }) // also deletes the link
	e.ip("link", "add", e.link, "type", "veth", "peer", "name", "eth0", "netns", e.name)
	e.ip("addr", "add", at(1)+"/30", "dev", e.link)
	e.ip("link", "set", e.link, "up")
	for _, set := range []string{"link set lo up", "addr add " + e.address + "/30 dev eth0", "link set eth0 up"} {
		e.ip(append([]string{"-n", e.name}, strings.Fields(set)...)...)
	}
	return e
}

func (e *elsewhere) ip(args ...string) {
	e.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		e.t.Fatalf("ip %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// do runs a function in that network: its new sockets and processes belong to it.
func (e *elsewhere) do(what func() error) {
	e.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		there, err := os.Open("/run/netns/" + e.name)
		if err == nil {
			err = errors.Join(unix.Setns(int(there.Fd()), unix.CLONE_NEWNET), there.Close())
		}
		if err == nil {
			err = what()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		e.t.Fatal(err)
	}
}

// reaches makes a loopback address of this network reachable from there, like a cloud's public service, unless the network is cut.
func (e *elsewhere) reaches(service string) {
	e.t.Helper()
	at, err := url.Parse(service)
	if err != nil {
		e.t.Fatal(err)
	}
	var listener net.Listener
	e.do(func() (err error) { listener, err = net.Listen("tcp", at.Host); return err })
	e.t.Cleanup(func() { _ = listener.Close() })
	carry := func(to, from net.Conn) {
		defer to.Close()
		piece := make([]byte, 64<<10)
		for {
			n, err := from.Read(piece)
			e.cut.RLock()
			_, failed := to.Write(piece[:n])
			e.cut.RUnlock()
			if err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				far, err := net.Dial("tcp", at.Host)
				if err != nil {
					_ = near.Close()
					return
				}
				go carry(far, near)
				carry(near, far)
			}()
		}
	}()
}

// without cuts the network for a time.
func (e *elsewhere) without(long time.Duration) {
	e.cut.Lock()
	defer e.cut.Unlock()
	e.ip("link", "set", e.link, "down")
	time.Sleep(long) // the length of the cut, not a wait for anything
	e.ip("link", "set", e.link, "up")
}

// A controller is cut off from its machines, its cloud and its store for half a minute. A run that is patient changes nothing. A run that
// gives up silent machines sooner, and whose machines stop sooner without it, restarts its program only once the machine has stopped. No
// step is lost or done twice, no two copies of a program run at a time, and both bills are exact.
func TestNetworkIsCut(t *testing.T) {
	if os.Getenv("TIERML_TEST_NETWORK") == "" {
		t.Skip("make network runs it")
	}
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		t.Fatal("it needs root and ip (Debian: iproute2)")
	}
	s, a := newAccount(t)
	e := newElsewhere(t)
	cloud, endpoint := s.amazon("--rules", "ec2-now+disk=16x0.08+address=0.005")
	for _, service := range []string{endpoint, a.bucket} {
		e.reaches(service)
	}
	if err := os.MkdirAll(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Its steps are long enough for a busy computer to save the state between two steps.
	s.write("work/count.sh", strings.NewReplacer(`echo "step $at of $UNTIL"`, `echo "step $at of $UNTIL"; echo "$$ $at" >>"$STEPS"`, "sleep 0.05\ndone", "sleep 0.3\ndone").Replace(counting))
	runs := map[string]*process{}
	for name, limits := range map[string]string{"patient": "dead_after: 2m", "hasty": "heartbeat: 400ms\ndead_after: 1s\norphan_after: 8s"} {
		s.write(name+".yaml", fmt.Sprintf(`name: %s
cloud: ec2
resources: {count: 1, any_of: [{type: c3.large, max_price: 0.10}], zones: [us-west-1a]}
workdir: work
state: {dir: ckpt, every: 2s}
progress: {line: 'step (\d+)', of: 1000000}
hours: 1
run: bash count.sh
envs: {UNTIL: 1000000, GATE: %q, STEPS: %q}
%s
ec2:
  region: us-west-1
  cluster: prod
  image: ami-12345678
  program: {url: "%s/tierml", sha256: %s}
  checkpoints: %q
  catalog: catalog.csv
  listen: %s:0
  endpoint: %s
`, name, s.path("gate"), s.path(name+".steps"), limits, a.program, a.sum, a.at(name), e.address, endpoint))
		e.do(func() error { runs[name] = s.start("run", "-y", "--plain", name+".yaml"); return nil })
	}
	s.gate(1_000_000)
	for name, run := range runs {
		s.until(run, name+"-1", "a saved state", func(entries []journal.Entry) bool {
			return reached(8)(entries) && len(programLines(entries, journal.ProgramSaved, "")) > 0
		})
	}
	e.without(30 * time.Second)
	last := map[string]int64{}
	for name := range runs {
		lines := programLines(s.journal(name+"-1"), journal.ProgramStep, "")
		last[name] = lines[len(lines)-1].Clock
	}
	for name, run := range runs {
		s.until(run, name+"-1", "a step after the cut", reached(last[name]+8))
		if name == "hasty" {
			s.until(run, name+"-1", "a second copy", func(entries []journal.Entry) bool { return len(programLines(entries, journal.ProgramStart, "")) == 2 })
		}
	}
	for name, run := range runs {
		e.do(func() error { s.start("stop", name+"-1").wait(0); return nil })
		t.Logf("%s:\n%s", name, run.wait(cli.ExitInterrupted))
	}
	cloudBill := billOf(t, endpoint)
	var reported market.USD
	for name, copies := range map[string]int{"patient": 1, "hasty": 2} {
		entries := s.journal(name + "-1")
		checkEntries(t, entries)
		if n := len(programLines(entries, journal.ProgramStart, "")); n != copies {
			t.Errorf("%s had %d copies, want %d", name, n, copies)
		}
		s.stepsInOrder(name)
		var report cost.Report
		s.command(&report, "report", "runs/"+name+"-1", "-o", "json")
		reported += report.Totals.Total
	}
	if reported != cloudBill.Total || reported == 0 {
		t.Errorf("the reports say $%s, the cloud's bill is $%s", reported, cloudBill.Total)
	}
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
}

var stepOfCopy = regexp.MustCompile(`(?m)^(\d+) (\d+)$`)

// stepsInOrder checks what the copies of a program wrote to one file: each step once, one copy after the other.
func (s *site) stepsInOrder(name string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path(name + ".steps"))
	if err != nil {
		s.t.Fatal(err)
	}
	var copies []string
	for i, line := range stepOfCopy.FindAllStringSubmatch(string(text), -1) {
		if step, _ := strconv.Atoi(line[2]); step != i+1 {
			s.t.Fatalf("%s: line %d is of step %d, by copy %s after %v", name, i+1, step, line[1], copies)
		}
		if len(copies) == 0 || copies[len(copies)-1] != line[1] {
			copies = append(copies, line[1])
		}
	}
	s.t.Logf("%s: %d steps by %d copies", name, strings.Count(string(text), "\n"), len(copies))
}

func billOf(t *testing.T, endpoint string) (bill fakecloud.Bill) {
	t.Helper()
	response, err := http.Get(endpoint + "/_control/bill")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &bill)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return bill
}
