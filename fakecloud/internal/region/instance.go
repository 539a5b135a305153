package region

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// State of an instance.
type State string

// EC2's states.
const (
	Pending      State = "pending"
	Running      State = "running"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
)

// Alive reports whether the instance is billed.
func (s State) Alive() bool { return s == Pending || s == Running }

// Instance is a machine as the region knows it. Launched and Ended are whole seconds: bills are computed from these.
type Instance struct {
	ID          string
	Reservation string
	Index       int // within its reservation
	Number      int // number of the launch in the region, from 1
	Token       string
	Image       string
	KeyName     string
	Groups      []string // ids of its security groups
	Fleet       string   // that bought it; "" = none
	Weight      float64  // its units in the fleet
	Elastic     string   // its elastic address; "" = none
	Pool        market.Pool
	Bid         market.USD // highest price per hour; 0 for on-demand
	UserData    []byte
	Tags        map[string]string

	State    State
	Launched time.Time // or restarted
	BootAt   time.Time
	Ended    time.Time // or stopped; zero while alive
	Cause    Cause     // of the end

	NoticedAt   time.Time // when the notice appeared; zero without one
	Deadline    time.Time // when the machine is reclaimed; zero without a notice
	RebalanceAt time.Time // of the rebalance recommendation; zero without one

	Shown
	Request SpotRequest // of spot instances
	Terms   Terms       // of instances of Compute Engine

	crossing  time.Time // when the price rises above the bid; zero = never
	noticeWhy Cause     // the cause to report for the end
	lifeOver  time.Time // when the notice comes because its lifetime ends; zero = never
	visibleAt time.Time
}

// Shown are properties that callers can set and that are shown; only Protected has an effect, too.
type Shown struct {
	EBSOptimized, Monitored, Hibernation bool
	Protected                            bool // against Terminate
}

// Terms are the further terms that a caller of Compute Engine can set. Lengths are market time; 0 = none.
type Terms struct {
	Labels      map[string]string
	Preemptible bool          // the older kind of spot machine
	Delete      bool          // when it is preempted or its time ends; otherwise it is only stopped
	MaxRun      time.Duration // after which it ends by itself
	MaxLife     time.Duration // after which the provider reclaims it, with its usual notice
	ExtraNotice time.Duration // how much earlier a notice comes
}

// SpotRequest is the request that a spot instance came from. This market fills it at once or not at all.
type SpotRequest struct {
	ID        string // "sir-..."; empty for on-demand
	Created   time.Time
	State     string // "active", "closed", "cancelled"
	Code      string // "fulfilled", "marked-for-termination", "instance-terminated-by-price", ...
	Message   string
	UpdatedAt time.Time
	Tags      map[string]string
}

// clone separates the caller's copy from later changes.
func (i *Instance) clone() Instance {
	c := *i
	c.Tags = maps.Clone(i.Tags)
	c.Request.Tags = maps.Clone(i.Request.Tags)
	c.Terms.Labels = maps.Clone(i.Terms.Labels)
	return c
}

// TransitionReason returns in EC2's form what ended the instance and when: "User initiated (2014-04-05
// 12:34:56 GMT)". It is empty while the instance is alive.
func (i Instance) TransitionReason() string {
	if i.State.Alive() {
		return ""
	}
	who := "User"
	if i.Cause.By == market.ByProvider {
		who = "Service"
	}
	return who + " initiated (" + i.Ended.UTC().Format("2006-01-02 15:04:05") + " GMT)"
}

// Cause is why an instance ended, in EC2's words.
type Cause struct {
	By             market.EndedBy
	Code           string // of the state reason
	Message        string
	RequestCode    string // status of the spot request
	RequestMessage string
	Marked         string // status message of the request between notice and end
	Operation      string // type of the corresponding operation on Compute Engine, which replaces Code
}

// The ways in which an instance ends.
var (
	// UserRequest: TerminateInstances, or the end of the whole cloud.
	UserRequest = Cause{
		By: market.ByUser, Code: "Client.UserInitiatedShutdown",
		Message:        "Client.UserInitiatedShutdown: User initiated shutdown",
		RequestCode:    "instance-terminated-by-user",
		RequestMessage: "Spot Instance terminated due to user-initiated termination.",
		Operation:      "delete",
	}
	// SelfShutdown: its process ended by itself.
	SelfShutdown = Cause{
		By: market.ByUser, Code: "Client.InstanceInitiatedShutdown",
		Message:        "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
		RequestCode:    "instance-terminated-by-user",
		RequestMessage: "Spot Instance terminated due to instance-initiated shutdown.",
		Operation:      "compute.instances.guestTerminate",
	}
	// PriceRise: the spot price rose above the bid.
	PriceRise = Cause{
		By: market.ByProvider, Code: "Server.SpotInstanceTermination",
		Message:        "Server.SpotInstanceTermination: Spot instance termination",
		RequestCode:    "instance-terminated-by-price",
		RequestMessage: "Your Spot instance was terminated because the Spot price rose above your maximum price.",
		Marked:         "Your Spot instance is marked for termination because the Spot price is above your maximum price.",
	}
	// CapacityTaken: the provider wants the machine back regardless of the price.
	CapacityTaken = Cause{
		By: market.ByProvider, Code: "Server.SpotInstanceTermination",
		Message:        "Server.SpotInstanceTermination: Spot instance termination",
		RequestCode:    "instance-terminated-no-capacity",
		RequestMessage: "Your Spot instance was terminated because there is no Spot capacity available.",
		Marked:         "Your Spot instance is marked for termination because there is no Spot capacity available.",
		Operation:      "compute.instances.preempted",
	}
	// HardwareFailure: the machine broke. It counts as ended by the provider, because EC2's words on the free
	// hour ("if your Spot Instance is terminated or stopped by Amazon EC2") do not ask why; an on-demand
	// machine has no free hour in any rule book.
	HardwareFailure = Cause{
		By: market.ByProvider, Code: "Server.InternalError",
		Message:        "Server.InternalError: An internal error of the host terminated the instance",
		RequestCode:    "instance-terminated-by-service",
		RequestMessage: "Spot Instance terminated because of a failure of its host.",
		Operation:      "compute.instances.hostError",
	}
	// RunOver: the longest run that the request permitted has ended (Compute Engine only).
	RunOver = Cause{By: market.ByUser, Message: "The longest run is over.", Operation: "compute.instances.scheduledVmTerminate"}
)

// Instances returns every instance in listings, including ended ones, in order of launch.
func (r *Region) Instances(now time.Time) []Instance {
	r.Advance(now)
	var list []Instance
	for _, i := range r.order {
		if !i.visibleAt.After(r.now) {
			list = append(list, i.clone())
		}
	}
	return list
}

// Instance returns one, visible or not.
func (r *Region) Instance(now time.Time, id string) (Instance, bool) {
	r.Advance(now)
	i, ok := r.instances[id]
	if !ok {
		return Instance{}, false
	}
	return i.clone(), true
}

// mostTags is the maximum number of tags.
const mostTags = 50

// ChangeTags changes the tags of anything that has an id. If one is unknown, none is changed.
func (r *Region) ChangeTags(now time.Time, resources []string, change func(map[string]string)) error {
	r.Advance(now)
	var targets []*map[string]string
	for _, id := range resources {
		target := r.tagsOf(id)
		if target == nil {
			if strings.HasPrefix(id, "i-") {
				return NotFound(id)
			}
			return Errorf("InvalidID", "The ID '%s' is not valid", id)
		}
		targets = append(targets, target)
	}
	changed := make([]map[string]string, len(targets))
	for n, target := range targets {
		changed[n] = make(map[string]string)
		maps.Copy(changed[n], *target)
		if change(changed[n]); len(changed[n]) > mostTags {
			return Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
	}
	for n, target := range targets {
		*target = changed[n]
	}
	return nil
}

// SetGroups, for Modify, replaces the security groups of an instance.
func SetGroups(groups []string) func(*Instance) error {
	return func(i *Instance) error {
		i.Groups = slices.Clone(groups)
		return nil
	}
}

// SetProtected, for Modify, protects an instance against Terminate, or no longer. Spot machines cannot be protected.
func SetProtected(protected bool) func(*Instance) error {
	return func(i *Instance) error {
		if i.Pool.Class == market.Spot {
			return Errorf("UnsupportedOperation", "Modifying 'disableApiTermination' is not supported for spot instances.")
		}
		i.Protected = protected
		return nil
	}
}

// Modify changes an instance.
func (r *Region) Modify(now time.Time, id string, change func(*Instance) error) error {
	r.Advance(now)
	i, ok := r.instances[id]
	if !ok {
		return NotFound(id)
	}
	return change(i)
}

// SetLabels replaces the labels of an instance; false if there is none of that name.
func (r *Region) SetLabels(now time.Time, id string, labels map[string]string) bool {
	r.Advance(now)
	i, ok := r.instances[id]
	if ok {
		i.Terms.Labels = maps.Clone(labels)
	}
	return ok
}

func (r *Region) tagsOf(id string) *map[string]string {
	if i, ok := r.instances[id]; ok {
		return &i.Tags
	}
	for _, i := range r.order {
		if i.Request.ID == id && id != "" {
			return &i.Request.Tags
		}
	}
	if n := slices.IndexFunc(r.waiting, func(w *Waiting) bool { return w.Request.ID == id }); n >= 0 {
		return &r.waiting[n].Request.Tags
	}
	if n := slices.IndexFunc(r.fleets, func(f *Fleet) bool { return f.ID == id }); n >= 0 {
		return &r.fleets[n].Tags
	}
	return r.Account.tags(id)
}

// NotFound is EC2's answer to ids of instances that do not exist.
func NotFound(ids ...string) *Error {
	if len(ids) > 1 {
		return Errorf("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
	}
	return Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
}
