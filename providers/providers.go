// Package providers is what the program has to know of those who sell machines: one folder for each (providers/ec2,
// providers/gce), and one line in the registry (providers/all). Everything that commands, plans, runs and agents ask of a
// provider is in Provider, and what differs as data is in Facts: nothing else in the tree asks which provider it is.
//
// A provider's folder has its block of the job file, its market and its rule book, the way to its API (a provisioner.Cloud), its
// doctor's checks, and what its machines say of themselves. The package refuses to know any of them.
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
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is somebody who sells machines. A job's own is of its block: see Of.
type Provider interface {
	// Facts is what is to be known of it as data.
	Facts() Facts
	// Open is the way to a job's account. Nothing is asked, and nothing is bought by it.
	Open(ctx context.Context, job *config.Job, s Session) (Account, error)
	// Market is what it sells to a job, with what it tells of capacity and quotas; price lists are kept for a day in a folder.
	Market(ctx context.Context, job *config.Job, folder string) (*local.Market, error)
	// Try asks whether it would sell machines of all these pools, without buying any. What it found is for people.
	Try(ctx context.Context, job *config.Job, pools []market.Pool) (found string, err error)
	// Checks are what is looked at before a job is run. The first is called credentials: it opens the account.
	Checks(job *config.Job) []doctor.Check
	// Pace is how often it is asked, and how patiently.
	Pace(job *config.Job) Pace
	// Boot is what the first script of a machine needs to get the program from where the installation has it.
	Boot(at *config.Installation) Boot
	// Place is where a controller's machine would be put where the job's block controller does not say it.
	Place(job *config.Job) (network, zones []string)
	// Metadata is what the provider tells a machine of itself. It is called on that machine.
	Metadata(m clock.Mapping, log *slog.Logger) node.Machine
}

// Account is a provider's API with a job's rights: to buy by, to look at, and to clean up.
type Account interface {
	provisioner.Cloud
	// SpotPrices are the prices of spot pools in a time, beginning with those in force at its begin.
	SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error)
	Controllers(context.Context) ([]provisioner.Controller, error)
	StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error)
	EndController(context.Context, provisioner.Controller) error
	// Close gives up idle connections.
	Close()
}

// Session is what an account is opened for. The zero value looks at all machines of the job's cluster.
type Session struct {
	// Run is the run whose machines alone are seen, by a name that is unique in the account.
	Run string
	// Played is where a cloud of this program plays the provider in a region; empty = the provider itself is meant, or what is at
	// the job's endpoint.
	Played, Region string
	// What follows is for buying. Minutes is after how long a machine powers itself off that hears nobody, and Expires when nobody
	// wants machines any more that are bought, whatever their leases say.
	Minutes int
	Expires time.Time
	Poll    time.Duration // between two looks for notices
	Clock   clock.Mapping
	Offers  []planner.Offer // what the plan has found on sale
	Log     *slog.Logger
}

// Pace is how often a provider is asked, and how patiently.
type Pace struct {
	Prices time.Duration // between two looks at prices
	Calls  time.Duration // for an answer
	// Lease is how much longer a machine is wanted than it waits for its controller.
	Lease time.Duration
}

// Boot is what the first script of a machine is made with (providers/boot).
type Boot struct {
	Fetch       string // command that puts the program into tierml.new
	Environment string // for the program: NAME=value
}

// Facts are what is to be known of a provider as data.
type Facts struct {
	config.Provider // what job files have to know
	// NoBids: spot machines have a price, and nobody bids. Books are rule books beside those of package market.
	NoBids bool
	Books  []market.RuleBook
	// Bills are the forms in which it says what machines have cost.
	Bills []invoice.Form
	// Endpoint is the address of its API, with {region} in it.
	Endpoint string
	// ScriptInUserData: a machine's first script is its user data, and has the agent's in a comment. Otherwise Open takes care of
	// the script.
	ScriptInUserData bool
	// MetadataVariable is set in the environment of a machine that a cloud of this program has started in its name.
	MetadataVariable string
	// Mark is how machines of a cluster are known, before its name: "the tag tierml:cluster=".
	Mark string
	// Refused says what to do about credentials that are refused.
	Refused string
	// Undoable says why drills cannot do something, by the drill's word.
	Undoable map[string]string
	// Preemption is how people read of the drill that takes machines back, where Traits.Preempts.
	Preemption string
	Reach      Reach
	// Past asks for past prices beyond a job, for the price store; nil = it is not told.
	Past func(context.Context, PastQuery) (map[market.Pool][]market.PricePoint, error)
}

// Reach is how people reach the machine of a controller. Texts have {instance}, {zone}, {region}, {project}, {cluster}, {local}
// and {port} in them, and %20 for a space within a word.
type Reach struct {
	Tunnel, Token string // commands: open a tunnel, print the token
	NeedsZone     bool   // a machine is known by its zone and its name
	Stopped       string // what to do about one that does not answer
	// Programs are needed by the commands, with where they are had.
	Programs map[string]string
}

// PastQuery asks for past prices.
type PastQuery struct {
	Region, Endpoint string // Endpoint: empty = the provider's own
	Types, Zones     []string
	Since            time.Time
	Tell             func(prices int)
}

// registry is what there is. It changes before main begins only.
var registry []Provider

// Register adds a provider. It is for init functions (providers/all).
func Register(p Provider) {
	f := p.Facts()
	config.Register(f.Provider)
	market.Register(market.Seller{Name: f.Name, NoBids: f.NoBids, Books: f.Books})
	registry = append(registry, p)
}

// All are the providers that there are. The first is meant where nobody says which.
func All() []Provider { return append([]Provider(nil), registry...) }

// Named finds a provider by its name.
func Named(name string) (Provider, error) {
	var names []string
	for _, p := range registry {
		f := p.Facts()
		if f.Name == name {
			return p, nil
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("there is no provider %q, but %s", name, strings.Join(names, ", "))
}

// Bills are the forms of all providers.
func Bills() (forms []invoice.Form) {
	for _, p := range registry {
		forms = append(forms, p.Facts().Bills...)
	}
	return forms
}

// Of is who sells to a job: its cloud, or whom the cloud on this host plays.
func Of(job *config.Job) (Provider, error) {
	if job.Cloud == config.CloudLocal {
		return Named(job.Provider)
	}
	return Named(job.Cloud)
}

// Advice adds to a refusal what a user can do about it.
func Advice(job *config.Job, err error) error {
	p, unknown := Of(job)
	if unknown != nil || !denied(err) {
		return err
	}
	return fmt.Errorf("%w\nNothing was bought. tierml takes %s", err, p.Facts().Refused)
}
