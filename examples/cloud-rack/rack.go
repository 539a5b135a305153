// Package rack is the smallest cloud: a rack with a number of machines of one type, which are switched on and off. It shows everything that
// a provider has to do, in one folder; docs/extend.md walks through it. Here each machine is a process of this host.
package rack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
	"github.com/tierml/tierml/tiers/node"
)

const (
	name     = "rack"         // in cloud: of job files, and in pools
	kind     = "pc"           // the only type of machine
	variable = "RACK_MACHINE" // where a machine finds its folder
)

func init() { providers.Register(provider{}) }

// block is the rack's part of a job file.
type block struct {
	config.Installation
	// Machines is the number of machines in the rack. Required.
	Machines int `yaml:"machines"`
	// Power is the cost of a machine's hour. Default 1 cent.
	Power market.USD `yaml:"power"`
}

// Check checks the rack's own settings.
func (b *block) Check(c *config.Checker) {
	config.Default(c, "power", &b.Power, market.Dollar/100)
	if b.Machines < 1 {
		c.Fault("machines", "is missing: how many has the rack?", "below rack:, add machines: 10")
	}
}

// provider sells the machines of a rack.
type provider struct{ providers.Base }

func (provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: config.Provider{
			Name: name, Title: "the rack", New: func() config.Block { return &block{} }, Store: "https", Rules: "rack-power", Region: "cellar",
			ControllerType: kind, Examples: map[string]string{"machines": "machines: 10", "power": "power: $0.01"},
		},
		NoBids: true, Books: []market.RuleBook{market.BySecond{Name: "rack-power"}.Book()},
		ScriptInUserData: true, Mark: "the name of the cluster ", Refused: "no credentials: whoever can start a process here may use it",
		Undoable: map[string]string{"evict": "a rack never warns", "rebalance": "a rack never warns"},
	}
}

// Market has one pool, at a constant price; on demand a machine costs twice as much.
func (provider) Market(_ context.Context, job *config.Job, _ string) (*local.Market, error) {
	b := job.Block.(*block)
	pool := market.Pool{Provider: name, Region: b.Region, Zone: b.Region + "-a", Type: kind, Class: market.Spot}
	types := []market.InstanceType{{Name: kind, VCPU: 2, MemoryMiB: 4096, OnDemand: 2 * b.Power}}
	prices := map[market.Pool][]market.PricePoint{pool: {{At: job.Local.Start.Add(-30 * 24 * time.Hour), Price: b.Power}}}
	return &local.Market{Trace: &trace.Trace{Markets: trace.Of(prices)}, Catalog: market.NewCatalog(b.Region, types),
		Sources: []string{"Prices: what power costs, by the job file."}}, nil
}

// Open returns a rack that belongs to this process alone.
func (provider) Open(_ context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	b := job.Block.(*block)
	home, err := os.MkdirTemp("", "rack-")
	if err != nil {
		return nil, fmt.Errorf("making a place for the rack's machines: %w", err)
	}
	cloud := newRack(home, b.Machines).Cluster(strings.TrimSpace(b.Cluster + " " + s.Run))
	return providers.Plain{Cloud: cloud, Planned: providers.PlannedPrices(s.Offers), Controllerless: "a rack has no machine for a job server"}, nil
}

// rack is the switches.
type rack struct {
	home    string // a folder for each machine
	size    int
	started int
	running map[provisioner.InstanceID]*exec.Cmd
}

func newRack(home string, size int) *adapter.Machines {
	r := &rack{home: home, size: size, running: map[provisioner.InstanceID]*exec.Cmd{}}
	return &adapter.Machines{Traits: provisioner.Traits{Provider: name}, Now: time.Now, Start: r.start, End: r.end}
}

// start switches machines on, until one fails to start or all are on.
func (r *rack) start(q provisioner.Request) (ids []provisioner.InstanceID, err error) {
	for len(ids) < q.Count {
		if len(r.running) == r.size {
			return ids, fmt.Errorf("%w: all %d machines of the rack are in use", provisioner.ErrNoCapacity, r.size)
		}
		r.started++
		id := provisioner.InstanceID(fmt.Sprintf("rack-%04d", r.started))
		dir := filepath.Join(r.home, string(id))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "user-data"), []byte(q.UserData), 0o600)); err != nil {
			return ids, fmt.Errorf("%w: %w", provisioner.ErrTemporary, err)
		}
		cmd := exec.Command("bash", filepath.Join(dir, "user-data"))
		cmd.Env = append(os.Environ(), variable+"="+dir, "TIERML_HOME="+dir, "TIERML_POWER_OFF=true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return ids, fmt.Errorf("%w: %w", provisioner.ErrTemporary, err)
		}
		r.running[id], ids = cmd, append(ids, id)
	}
	return ids, nil
}

// end switches a machine off. It may have ended by itself.
func (r *rack) end(id provisioner.InstanceID) error {
	_ = syscall.Kill(-r.running[id].Process.Pid, syscall.SIGKILL)
	_ = r.running[id].Wait()
	delete(r.running, id)
	return nil
}

// Boot fetches the program from a web server.
func (provider) Boot(at *config.Installation) providers.Boot {
	return providers.Boot{Fetch: boot.Curl(at.Program.URL), Environment: providers.Variable + "=" + name}
}

// Metadata returns a machine's folder.
func (provider) Metadata(clock.Mapping, *slog.Logger) node.Machine {
	dir := os.Getenv(variable)
	return providers.Given{ID: filepath.Base(dir), Type: kind, UserDataFile: filepath.Join(dir, "user-data")}
}
