// Package providers is the interface to cloud providers. Each has a folder (providers/ec2, providers/gce) and a line in
// the registry (providers/all). Provider has everything that commands, plans, runs and agents need from one, Facts the
// differences as data; nothing else in the tree checks which provider it is.
//
// A provider's folder has its block of the job file, market, rule book, API client (a provisioner.Cloud), doctor's
// checks, and its machines' metadata. This package knows nothing about any particular provider.
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

// Provider is a cloud provider. Of returns a job's provider. Base has default implementations of some methods.
type Provider interface {
	// Facts returns what differs between providers as data.
	Facts() Facts
	// Open returns a job's account. It calls no API and buys nothing.
	Open(ctx context.Context, job *config.Job, s Session) (Account, error)
	// Market returns what the provider sells to a job, with its hints about capacity and quotas. Folder caches price
	// lists for a day.
	Market(ctx context.Context, job *config.Job, folder string) (*local.Market, error)
	// Try checks that the provider would sell machines of all these pools, without buying any. Found describes the
	// result for people.
	Try(ctx context.Context, job *config.Job, pools []market.Pool) (found string, err error)
	// Checks returns what tierml doctor checks for a job. The first is called credentials: it opens the account.
	Checks(job *config.Job) []doctor.Check
	// Pace returns how often the provider is called, and with what timeouts.
	Pace(job *config.Job) Pace
	// Boot returns what a machine's first script needs to fetch the program from the installation's store.
	Boot(at *config.Installation) Boot
	// Place returns the default network and zones of a job server's machine.
	Place(job *config.Job) (network, zones []string)
	// Metadata returns a machine's metadata service, as seen on that machine.
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
	// Close closes idle connections.
	Close()
}

// RunKeys is an Account that issues credentials for a run's own folder of a store to the run's machines. It returns
// false if that is not configured, and machines use their own credentials.
type RunKeys interface {
	RunKeys(ctx context.Context, run string, folder location.Place) (keys blob.Keys, ok bool, err error)
}

// Session is the purpose of an account. The zero value is for inspecting all machines of the job's cluster.
type Session struct {
	// Run limits the account to one run's machines; its name is unique in the account.
	Run string
	// Played is the address of a fake cloud that emulates the provider in Region; empty = the provider itself, or the
	// job's endpoint.
	Played, Region string
	// The following fields are for buying. A machine without a controller powers itself off after Minutes. Expires is
	// the end of all bought machines, whatever their leases.
	Minutes int
	Expires time.Time
	Poll    time.Duration // between two polls for notices
	Clock   clock.Mapping
	Offers  []planner.Offer // the plan's
	Log     *slog.Logger
}

// Pace is how often a provider is called, and with what timeouts.
type Pace struct {
	Prices time.Duration // between two calls for prices
	Calls  time.Duration // timeout per call
	// Lease is how much longer a machine's lease lasts than the machine waits for its controller.
	Lease time.Duration
}

// Boot is a provider's part of a machine's first script (providers/boot).
type Boot struct {
	Fetch       string // command that puts the program into tierml.new
	Environment string // for the program: NAME=value
	Closed      Closing
}

// Closing says whose access to a machine's metadata service is blocked.
type Closing string

// Closings.
const (
	Open     Closing = ""          // nobody's
	ButAgent Closing = "but agent" // processes that the agent starts; the agent has a user of its own
	ButRoot  Closing = "but root"  // processes that an agent running as root starts as other users
)

// Closed returns how a job's machines are closed. They hide their metadata service from programs if runs have
// credentials of their own; without those, the agent itself uses the machine's. A container of an image needs an agent
// that runs as root, and so do slots of shared hosts, whose jobs bring their own credentials.
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
	// NoBids: spot machines have a price, and there are no bids. Books are rule books in addition to those of
	// package market.
	NoBids bool
	Books  []market.RuleBook
	// Bills are the formats of the provider's cost records.
	Bills []invoice.Form
	// Endpoint is the address of the provider's API, containing {region}.
	Endpoint string
	// ScriptInUserData: a machine's first script is its user data, with the agent's user data in a comment. Otherwise
	// Open supplies the script.
	ScriptInUserData bool
	// TermWarns: SIGTERM is a machine's warning, and its agent works on until it is killed.
	TermWarns bool
	// SlotsHave are variables of a shared host's environment that its slots have, too: what all processes of a OneUser could read anyway.
	SlotsHave []string
	// MetadataVariable names the metadata service in the environment of a fake cloud's machine.
	MetadataVariable string
	// Mark is the label of a cluster's machines, before its name: "the tag tierml:cluster=".
	Mark string
	// Refused is the advice about refused credentials.
	Refused string
	// Undoable has the kinds of harm that a drill cannot do here, with the reasons.
	Undoable map[string]string
	// Preemption describes the drill that evicts machines, for people, if Traits.Preempts.
	Preemption string
	// End is the provider's own command that ends {machines}, with {region}, {zone} and {project}.
	End   string
	Reach Reach
	// Past fetches past prices for the price store; nil = the provider has none.
	Past func(context.Context, PastQuery) (map[market.Pool][]market.PricePoint, error)
}

// Reach describes how people reach the machine of a job server. Texts may contain {instance}, {zone}, {region},
// {project}, {cluster}, {local} and {port}, and %20 for a space within a word.
type Reach struct {
	Tunnel, Token string // commands: open a tunnel, print the token
	NeedsZone     bool   // a machine's name is unique only in its zone
	Stopped       string // advice about a machine that does not respond
	// Programs are needed by the commands, with their sources.
	Programs map[string]string
	// Command runs {command}, a shell command line, on a machine of a run, and Shell does so at a terminal.
	// {command-json} is the same line as a JSON string.
	Command, Shell string
	// Codeless: Command exits with 0, whatever the line's exit code.
	Codeless bool
}

// Home is the folder on a run's machines with everything of ours.
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

// Register adds a provider. A provider's folder calls it in an init function.
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

// Named returns the provider with a name.
func Named(name string) (Provider, error) {
	if p, known := registry[name]; known {
		return p, nil
	}
	return nil, fmt.Errorf("there is no provider %q, but %s", name, strings.Join(config.RealClouds(), ", "))
}

// Bills returns the formats of all providers.
func Bills() (forms []invoice.Form) {
	for _, p := range All() {
		forms = append(forms, p.Facts().Bills...)
	}
	return forms
}

// Of returns a job's provider: its cloud, or the one that the fake cloud emulates.
func Of(job *config.Job) (Provider, error) {
	if job.Cloud == config.CloudLocal {
		return Named(job.Provider)
	}
	return Named(job.Cloud)
}

// Advice adds advice to an error about refused credentials.
func Advice(job *config.Job, err error) error {
	p, unknown := Of(job)
	if unknown != nil || !denied(err) {
		return err
	}
	return fmt.Errorf("%w\nNothing was bought. tierml takes %s", err, p.Facts().Refused)
}
