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
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Name is the word for cloud: in job files, and in pools.
const Name = "rack"

// Kind is the only type of machine that a rack has.
const Kind = "pc"

// variable is where a machine finds what it was switched on with.
const variable = "RACK_MACHINE"

// Block is the rack's part of a job file.
type Block struct {
	config.Installation
	// Machines are how many the rack has. Required.
	Machines int `yaml:"machines"`
	// Power is what an hour of a machine costs. Default 1 cent.
	Power market.USD `yaml:"power"`
}

// Check is of what only a rack has.
func (b *Block) Check(c *config.Checker) {
	config.Default(c, "power", &b.Power, market.Dollar/100)
	if b.Machines < 1 {
		c.Fault("machines", "is missing: how many has the rack?", "below rack:, add machines: 10")
	}
}

// Provider sells the machines of a rack.
type Provider struct{}

// Facts is what is to be known of a rack as data.
func (Provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: config.Provider{
			Name: Name, Title: "the rack", New: func() config.Block { return &Block{} }, Store: "https", Rules: "rack-power", Region: "cellar",
			ControllerType: Kind, Examples: map[string]string{"machines": "machines: 10", "power": "power: $0.01"},
		},
		NoBids: true, Books: []market.RuleBook{market.BySecond{Name: "rack-power"}.Book()},
		ScriptInUserData: true, Mark: "the name of the cluster ", Refused: "no credentials: whoever can start a process here may use it",
		Undoable: map[string]string{"evict": "a rack never warns", "rebalance": "a rack never warns"},
	}
}

// pools are what is sold: on a rack the two terms of sale differ in price alone.
func pools(at *config.Installation) (spot, onDemand market.Pool) {
	spot = market.Pool{Provider: Name, Region: at.Region, Zone: at.Region + "-a", Type: Kind, Class: market.Spot}
	onDemand = spot
	onDemand.Class = market.OnDemand
	return spot, onDemand
}

// Market has a price that never changes.
func (Provider) Market(_ context.Context, job *config.Job, _ string) (*local.Market, error) {
	b := job.Block.(*Block)
	spot, _ := pools(job.Installation())
	kind := market.InstanceType{Name: Kind, VCPU: 2, MemoryMiB: 4096, OnDemand: 2 * b.Power}
	price := map[market.Pool][]market.PricePoint{spot: {{At: job.Local.Start.Add(-30 * 24 * time.Hour), Price: b.Power}}}
	return &local.Market{Trace: &trace.Trace{Markets: trace.Of(price)}, Catalog: market.NewCatalog(spot.Region, []market.InstanceType{kind}),
		Sources: []string{"Prices: what power costs, by the job file."}}, nil
}

// Try compares the pools with what is sold.
func (Provider) Try(_ context.Context, job *config.Job, wanted []market.Pool) (string, error) {
	spot, onDemand := pools(job.Installation())
	for _, p := range wanted {
		if p != spot && p != onDemand {
			return "", fmt.Errorf("%w: the rack has no %s", provisioner.ErrInvalid, p)
		}
	}
	return fmt.Sprintf("The rack has %d machines.", job.Block.(*Block).Machines), nil
}

// Checks check whether the rack is there.
func (Provider) Checks(job *config.Job) []doctor.Check {
	return []doctor.Check{{Name: "credentials", Look: func(context.Context) (string, error) {
		if _, err := exec.LookPath("bash"); err != nil {
			return "", doctor.Wrong("apt-get install bash", "machines run their first script with it: %v", err)
		}
		return fmt.Sprintf("none are needed for %d machines", job.Block.(*Block).Machines), nil
	}}}
}

// Pace is quick: the rack is here.
func (Provider) Pace(*config.Job) providers.Pace {
	return providers.Pace{Prices: time.Second, Calls: 10 * time.Second, Lease: time.Hour}
}

// Boot fetches the program from a web server.
func (Provider) Boot(at *config.Installation) providers.Boot {
	return providers.Boot{Fetch: boot.Curl(at.Program.URL), Environment: providers.Variable + "=" + Name}
}

// Place is nothing: a rack has one network.
func (Provider) Place(*config.Job) (network, zones []string) { return nil, nil }

// account is the rack as one run sees it.
type account struct {
	provisioner.Cloud
	power market.USD
}

// Open takes a rack that is all this process's own.
func (Provider) Open(_ context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	b := job.Block.(*Block)
	r := New(b.Machines)
	home, err := os.MkdirTemp("", "rack-")
	if err != nil {
		return nil, fmt.Errorf("making a place for the rack's machines: %w", err)
	}
	running := map[int]*exec.Cmd{} // guarded by the rack's lock
	r.On = func(slot int, id provisioner.InstanceID, userData string) error {
		dir := filepath.Join(home, string(id))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "user-data"), []byte(userData), 0o600)); err != nil {
			return err
		}
		cmd := exec.Command("bash", filepath.Join(dir, "user-data"))
		cmd.Env = append(os.Environ(), variable+"="+dir, "TIERML_HOME="+dir, "TIERML_POWER_OFF=true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		running[slot] = cmd
		return cmd.Start()
	}
	r.Off = func(slot int) error {
		_ = syscall.Kill(-running[slot].Process.Pid, syscall.SIGKILL) // it may have ended by itself
		_ = running[slot].Wait()
		return nil
	}
	return account{r.Cluster(strings.TrimSpace(b.Cluster + " " + s.Run)), b.Power}, nil
}

func (a account) SpotPrices(_ context.Context, pools []market.Pool, since, _ time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		prices[p] = []market.PricePoint{{At: since, Price: a.power}}
	}
	return prices, nil
}

// No controller runs on a rack's machines: they are switched from outside.
func (account) Controllers(context.Context) ([]provisioner.Controller, error) { return nil, nil }

func (account) StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error) {
	return provisioner.Controller{}, fmt.Errorf("%w: a rack has no machine for a controller", provisioner.ErrInvalid)
}

func (account) EndController(context.Context, provisioner.Controller) error { return nil }

func (account) Close() {}

// Metadata is what the rack has written down for a machine.
func (Provider) Metadata(clock.Mapping, *slog.Logger) node.Machine {
	return metadata(os.Getenv(variable))
}

// metadata is a machine's folder.
type metadata string

func (m metadata) Identity(context.Context) (node.Identity, error) {
	return node.Identity{Instance: ps.ServerID(filepath.Base(string(m))), Type: Kind}, nil
}

func (m metadata) UserData(context.Context) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(m), "user-data"))
	return string(text), err
}

// Watch waits: a rack never warns.
func (metadata) Watch(ctx context.Context, _ func(tiers.Warned)) error {
	<-ctx.Done()
	return nil
}
