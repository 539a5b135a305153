// Package providers is the interface to cloud providers. Each has a folder (providers/ec2, providers/gce) and a line in the
// registry (providers/all). Provider has everything that commands, plans, runs and agents need of one, Facts what differs as
// data; nothing else in the tree asks which provider it is.
//
// A provider's folder has its block of the job file, market, rule book, API client (a provisioner.Cloud), doctor's checks, and
// its machines' metadata. This package knows nothing about any one.
package providers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost/invoice"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is a cloud provider. Of returns a job's. Base has usual answers to some of it.
type Provider interface {
	// Facts returns what differs between providers as data.
	Facts() Facts
	// Open returns a job's account. It calls no API and buys nothing.
	Open(ctx context.Context, job *config.Job, s Session) (Account, error)
	// Market returns what it sells to a job, with its hints about capacity and quotas. Folder caches price lists for a day.
	Market(ctx context.Context, job *config.Job, folder string) (*local.Market, error)
	// Try checks that it would sell machines of all these pools, without buying any. Found is for people.
	Try(ctx context.Context, job *config.Job, pools []market.Pool) (found string, err error)
	// Checks are what tierml doctor checks of a job. The first is called credentials: it opens the account.
	Checks(job *config.Job) []doctor.Check
	// Pace sets how often it is called, and with what timeouts.
	Pace(job *config.Job) Pace
	// Boot is what a machine's first script needs to fetch the program from the installation's store.
	Boot(at *config.Installation) Boot
	// Place is the default network and zones of a job server's machine.
	Place(job *config.Job) (network, zones []string)
	// Metadata is a machine's metadata service, as seen on that machine.
	Metadata(m clock.Mapping, log *slog.Logger) node.Machine
}

// Account is a provider's API with a job's rights: to buy, to list, and to clean up.
type Account interface {
	provisioner.Cloud
	// SpotPrices returns the prices of spot pools from since until until, beginning with those in force at since.
	SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error)
	Controllers(context.Context) ([]provisioner.Controller, error)
	StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error)
	EndController(context.Context, provisioner.Controller) error
	// Close gives up idle connections.
	Close()
}

// RunKeys is an Account that gives the machines of a run credentials for the run's own folder of a store. False: nothing is configured
// for that, and machines use their own.
type RunKeys interface {
	RunKeys(ctx context.Context, run string, folder location.Place) (keys blob.Keys, ok bool, err error)
}

// Session is the purpose of an account. The zero value is for looking at all machines of the job's cluster.
type Session struct {
	// Run limits the account to one run's machines; its name is unique in the account.
	Run string
	// Played is the address of a fake cloud that plays the provider in Region; empty = the provider itself, or the job's
	// endpoint.
	Played, Region string
	// What follows is for buying. A machine without a controller powers itself off after Minutes. Expires is the end of all
	// bought machines, whatever their leases.
	Minutes int
	Expires time.Time
	Poll    time.Duration // between two looks for notices
	Clock   clock.Mapping
	Offers  []planner.Offer // the plan's
	Log     *slog.Logger
}

// Pace is how often a provider is called, and with what timeouts.
type Pace struct {
	Prices time.Duration // between two calls for prices
	Calls  time.Duration // timeout of a call
	// Lease is how much longer a machine's lease lasts than it waits for its controller.
	Lease time.Duration
}

// Boot is a provider's part of a machine's first script (providers/boot).
type Boot struct {
	Fetch       string // command that puts the program into tierml.new
	Environment string // for the program: NAME=value
	Closed      Closing
}

// Closing says for whom a machine's metadata service is closed.
type Closing string

// Closings.
const (
	Open     Closing = ""          // for nobody
	ButAgent Closing = "but agent" // for what the agent starts; it runs as a user of its own
	ButRoot  Closing = "but root"  // for what an agent that is root starts as other users
)

// Closed returns how machines of a job are closed. They keep their metadata service from programs where runs have credentials of their own; without,
// the agent itself uses the machine's. A container of an image needs an agent that is root, and so do slots of shared hosts, whose jobs bring
// their own credentials.
func Closed(job *config.Job) Closing {
	keys, ok := job.Block.(interface{ GivesKeys() bool })
	switch {
	case job.IsHosts():
		return ButRoot
	case ok && keys.GivesKeys() && job.Run != "" && job.Image == "":
		return ButAgent
	}
	return Open
}

// Facts are what differs between providers as data.
type Facts struct {
	config.Provider // for job files
	// NoBids: spot machines have a price, and there are no bids. Books are rule books besides those of package
	// market.
	NoBids bool
	Books  []market.RuleBook
	// Bills are the forms in which it says what machines have cost.
	Bills []invoice.Form
	// Endpoint is the address of its API, with {region} in it.
	Endpoint string
	// ScriptInUserData: a machine's first script is its user data, with the agent's user data in a comment. Otherwise Open
	// sees to the script.
	ScriptInUserData bool
	// TermWarns: SIGTERM is how a machine is warned, and its agent works on until it is killed.
	TermWarns bool
	// MetadataVariable names the metadata service in the environment of a fake cloud's machine.
	MetadataVariable string
	// Mark is what marks a cluster's machines, before its name: "the tag tierml:cluster=".
	Mark string
	// Refused is the advice about refused credentials.
	Refused string
	// Undoable has the harms that a drill cannot do here, with the reasons.
	Undoable map[string]string
	// Preemption describes the drill that evicts machines to people, where Traits.Preempts.
	Preemption string
	// End is the provider's own command that ends {machines}, with {region}, {zone} and {project}.
	End   string
	Reach Reach
	// Past fetches past prices for the price store; nil = the provider has none.
	Past func(context.Context, PastQuery) (map[market.Pool][]market.PricePoint, error)
}

// Reach is how people reach the machine of a job server. Texts have {instance}, {zone}, {region}, {project}, {cluster}, {local}
// and {port} in them, and %20 for a space within a word.
type Reach struct {
	Tunnel, Token string // commands: open a tunnel, print the token
	NeedsZone     bool   // a machine's name is unique in its zone only
	Stopped       string // advice about a machine that does not answer
	// Programs are needed by the commands, with where to get them.
	Programs map[string]string
	// Command runs {command}, a line of a shell, on a machine of a run, and Shell does so at a terminal. {command-json} is the same line as a JSON string.
	Command, Shell string
	// Codeless: Command ends with 0, however the line ends.
	Codeless bool
}

// Home is where a run's machines have everything of ours.
const Home = "/var/lib/tierml"

// PastQuery selects past prices.
type PastQuery struct {
	Region, Endpoint string // Endpoint: empty = the provider's own
	Types, Zones     []string
	Since            time.Time
	Tell             func(prices int)
}

// registry has all providers by name. It is complete before main begins.
var registry = map[string]Provider{}

// Register adds a provider. Its folder calls it in an init function.
func Register(p Provider) {
	f := p.Facts()
	config.Register(f.Provider)
	market.Register(market.Seller{Name: f.Name, NoBids: f.NoBids, Books: f.Books})
	registry[f.Name] = p
}

// All returns the registered providers. The first is the default.
func All() (all []Provider) {
	for _, name := range config.RealClouds() {
		all = append(all, registry[name])
	}
	return all
}

// Named finds a provider by its name.
func Named(name string) (Provider, error) {
	if p, known := registry[name]; known {
		return p, nil
	}
	return nil, fmt.Errorf("there is no provider %q, but %s", name, strings.Join(config.RealClouds(), ", "))
}

// Bills returns the forms of all providers.
func Bills() (forms []invoice.Form) {
	for _, p := range All() {
		forms = append(forms, p.Facts().Bills...)
	}
	return forms
}

// Of returns a job's provider: its cloud, or the one that the fake cloud plays.
func Of(job *config.Job) (Provider, error) {
	if job.Cloud == config.CloudLocal {
		return Named(job.Provider)
	}
	return Named(job.Cloud)
}

// Advice adds to an error about refused credentials what a user can do.
func Advice(job *config.Job, err error) error {
	p, unknown := Of(job)
	if unknown != nil || !denied(err) {
		return err
	}
	return fmt.Errorf("%w\nNothing was bought. tierml takes %s", err, p.Facts().Refused)
}
