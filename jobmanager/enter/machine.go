package enter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/jobmanager/reach"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/status"
)

// ControlTimeout bounds a call to a fake cloud's control endpoint, which is on this host.
const ControlTimeout = 10 * time.Second

// Selected is the selected machine.
type Selected struct {
	Run     string
	Job     []byte // its job file
	Machine Listed
	Place   reach.Place
	Home    string // the machine's folder on this host; empty = it is a provider's
}

// Listed is a machine as in a journal.
type Listed struct {
	ID   string
	pool market.Pool
	Gone string // how it ended; empty = it is running
	Runs string // a program
}

func ChooseMachine(run, name string, machines []Listed) (Listed, error) {
	var fit []Listed
	for _, m := range machines {
		if strings.HasPrefix(m.ID, name) {
			fit = append(fit, m)
		}
	}
	switch {
	case len(fit) == 0:
		return Listed{}, fmt.Errorf("%s has no machine %s; it has %s", run, name, ListMachines(machines))
	case len(fit) > 1:
		return Listed{}, fmt.Errorf("%s matches several machines of %s: %s", name, run, ListMachines(fit))
	case fit[0].Gone != "":
		return Listed{}, fmt.Errorf("machine %s of %s is gone (%s); it has %s", fit[0].ID, run, fit[0].Gone, ListMachines(machines))
	}
	return fit[0], nil
}

// MachinesOf returns all machines of a journal, in order of their launches.
func MachinesOf(entries []journal.Entry, rows []*status.ProgramRow) (machines []Listed) {
	for _, e := range entries {
		switch e.Kind {
		case journal.Launch:
			pool, err := market.ParsePool(e.Pool)
			if err == nil {
				machines = append(machines, Listed{ID: e.Instance, pool: pool})
			}
		case journal.Evicted, journal.Failed, journal.Terminated:
			for i := range machines {
				if machines[i].ID == e.Instance {
					machines[i].Gone = string(e.Kind)
				}
			}
		}
	}
	for _, r := range rows {
		for i := range machines {
			if machines[i].ID == r.Machine {
				machines[i].Runs = r.Program
			}
		}
	}
	return machines
}

// ListMachines names the running ones.
func ListMachines(machines []Listed) string {
	var names []string
	for _, m := range machines {
		if m.Gone == "" {
			names = append(names, strings.TrimSuffix(m.ID+" ("+m.Runs+")", " ()"))
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none now")
}

// PlaceOfMachine returns where a machine is, by its job and its pool. The rest of the job is ignored: its files may be on another host.
func PlaceOfMachine(text []byte, m Listed) (reach.Place, error) {
	var job struct {
		Cloud  string               `yaml:"cloud"`
		Blocks map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		return reach.Place{}, fmt.Errorf("reading the run's job: %w", err)
	}
	var block struct {
		Project string `yaml:"project"`
	}
	if node, ok := job.Blocks[job.Cloud]; ok {
		_ = node.Decode(&block) // a block without a project is none
	}
	return reach.Place{Cloud: job.Cloud, Region: m.pool.Region, Project: block.Project, Instance: m.ID, Zone: m.pool.Zone}, nil
}

// ErrNotHere is for a machine that no fake cloud of this host and user has.
var ErrNotHere = errors.New("the cloud does not have it on this host")

// HomeOf asks a fake cloud of this host for the folder of a machine. A remote job server names an address of its own host: whatever this
// user runs there does not know the machine.
func HomeOf(ctx context.Context, cloud, id string) (string, error) {
	if !onLoopback(cloud) {
		return "", fmt.Errorf("machine %s: %w", id, ErrNotHere)
	}
	ctx, cancel := context.WithTimeout(ctx, ControlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cloud+"/_control/instances", nil)
	if err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: sameuser.Dial, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w: %w", ErrNotHere, err)
	}
	defer response.Body.Close()
	var there []fakecloud.InstanceView
	if err := json.NewDecoder(response.Body).Decode(&there); err != nil {
		return "", fmt.Errorf("asking the cloud for its machines: %w: %w", ErrNotHere, err)
	}
	i := slices.IndexFunc(there, func(i fakecloud.InstanceView) bool { return i.ID == id })
	switch {
	case i < 0:
		return "", fmt.Errorf("machine %s: %w", id, ErrNotHere)
	case there[i].Home == "":
		return "", fmt.Errorf("machine %s has just gone; another one is on its way", id)
	}
	return there[i].Home, nil
}

func onLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && at.IsLoopback()
}
