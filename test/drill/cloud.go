package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/tierml/tierml/fakecloud"
)

// Cloud is a fake cloud in a process of its own.
type Cloud struct {
	*Process
	Endpoint string
	site     *Site
}

// logs is where machines' logs go.
const logs = "machines"

// StartCloud starts a cloud that sells what the jobs of a site want and runs agents.
func (s *Site) StartCloud(j Job) (*Cloud, error) {
	usual(&j.Speed, 600)
	usual(&j.Notice, 3*time.Second)
	usual(&j.Boot, 100*time.Millisecond)
	if err := os.MkdirAll(s.Path(logs), 0o755); err != nil {
		return nil, fmt.Errorf("starting the cloud: %w", err)
	}
	p, err := s.start("cloud.log", "fakecloud", "--prices", "prices.csv", "--catalog", "catalog.csv",
		"--start", "2014-04-01T00:00:00Z", "--speed", fmt.Sprint(j.Speed), "--notice", j.Notice.String(), "--boot", j.Boot.String(),
		"--flops-per-vcpu", strconv.FormatFloat(j.FlopsPerVCPU, 'f', -1, 64), "--log-dir", logs, "--records", "cloud.jsonl",
		"--instance-command", s.Binary+" agent", "--seed", strconv.FormatUint(j.Seed, 10))
	if err != nil {
		return nil, err
	}
	c := &Cloud{Process: p, site: s}
	address := regexp.MustCompile(`(?m)at (http://\S+)$`)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(s.Path("cloud.log"))
		if found := address.FindSubmatch(text); found != nil {
			c.Endpoint = string(found[1])
			return c, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("the cloud ends at its start: %s", text)
		default:
		}
	}
	p.End()
	return nil, errors.New("the cloud does not say where it is")
}

// Do makes something happen, in the words of the cloud's scripts, and gives the machines that it was for.
func (c *Cloud) Do(step string) (targets []string, err error) {
	body, err := json.Marshal(map[string]string{"step": step})
	if err != nil {
		return nil, err
	}
	response, err := http.Post(c.Endpoint+"/_control/do", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", step, response.Status, answer)
	}
	var done struct {
		Targets []string `json:"targets"`
	}
	return done.Targets, json.Unmarshal(answer, &done)
}

// Instances are all that there ever were.
func (c *Cloud) Instances() (list []fakecloud.InstanceView, err error) {
	response, err := http.Get(c.Endpoint + "/_control/instances")
	if err != nil {
		return nil, fmt.Errorf("listing the instances: %w", err)
	}
	defer response.Body.Close()
	return list, json.NewDecoder(response.Body).Decode(&list)
}

// Machine is the process of an instance, known by the log that it writes; 0 = there is none.
func (s *Site) Machine(instance string) int {
	want := s.Path(logs, instance+".log")
	for _, pid := range s.Processes() {
		if log, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid)); log == want {
			return pid
		}
	}
	return 0
}

// CheckLogs looks for what a process says when it goes down by a mistake of ours.
func (s *Site) CheckLogs() error {
	found, _ := filepath.Glob(s.Path(logs, "*.log"))
	more, _ := filepath.Glob(s.Path("*.log"))
	for _, log := range append(found, more...) {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("reading the logs: %w", err)
		}
		for _, words := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			if at := bytes.Index(text, []byte(words)); at >= 0 {
				return fmt.Errorf("%s says %s", filepath.Base(log), text[at:min(len(text), at+2000)])
			}
		}
	}
	return nil
}
