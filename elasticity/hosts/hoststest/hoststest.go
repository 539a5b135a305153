// Package hoststest simulates jobs and reliable hosts for a book of slots, in simulated time: hosts start at once and go when they are
// empty, jobs report the load of serving, and do what the book answers. It knows nothing about machines, networks and models.
package hoststest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// Limit is the share of its speed that a job may lose, and Insist the minimum time that a slot stays.
const (
	Limit  = 0.1
	Insist = 5 * time.Minute
)

// Job is a job whose reliable slots only serve.
type Job struct {
	ID      string
	Profile tiers.Profile
	Type    string // of its slots

	slots  []provisioner.InstanceID
	owners []step.ID
	asked  int
	wish   tiers.Preference
}

// World is a book with its hosts and jobs.
type World struct {
	Book   *hosts.Book
	Now    time.Time
	Works  bool          // the reliable slots work on splits, too
	Moves  int           // partitions that changed their slot
	Lost   time.Duration // job time in which a job lost more than the limit
	Within time.Duration // total job time
	Last   []string      // decisions

	host  hosts.Size
	link  float64
	made  int
	hosts []step.ID
	jobs  []*Job
}

// New returns a world of hosts of a size, whose network is not limited.
func New(host hosts.Size, types map[string]hosts.Size) *World { return NewLinked(host, 0, types) }

// NewLinked returns a world of hosts with a network, in bytes per second in each direction.
func NewLinked(host hosts.Size, link float64, types map[string]hosts.Size) *World {
	return &World{Now: time.Unix(0, 0).UTC(), host: host, link: link, Book: hosts.NewBook(hosts.Rules{Provider: "local", Types: types, Loss: Limit, Insist: Insist,
		Offers: map[step.Tier]hosts.Offer{step.Reliable: {Least: host, Most: 1 << 20, Network: link}}})}
}

// Hosts returns the number of hosts.
func (w *World) Hosts() int { return len(w.hosts) }

// Load returns the cores that serving takes.
func (w *World) Load() (cores float64) {
	for _, j := range w.jobs {
		cores += j.Profile.Cores()
	}
	return cores
}

// Loss returns the most that a job loses.
func (w *World) Loss() (most float64) {
	for _, lost := range w.losses() {
		most = max(most, lost)
	}
	return most
}

// Arrive lets a job request its slot.
func (w *World) Arrive(j *Job) error {
	w.jobs = append(w.jobs, j)
	if err := w.ask(j); err != nil {
		return err
	}
	w.place()
	return nil
}

// Leave ends a job.
func (w *World) Leave(id string) {
	i := slices.IndexFunc(w.jobs, func(j *Job) bool { return j.ID == id })
	for _, s := range w.jobs[i].slots {
		w.giveBack(w.jobs[i], s)
	}
	w.jobs = slices.Delete(w.jobs, i, i+1)
	w.place()
}

// Pass advances time, in which each job reports once, and again at once after a change. It reports whether the book decided anything.
func (w *World) Pass(d time.Duration) (news bool, err error) {
	w.Now = w.Now.Add(d)
	loss := w.losses()
	for _, j := range w.jobs {
		lost := loss[j.ID]
		if w.Within += d; lost > Limit {
			w.Lost += d
		}
		lately := time.Duration(float64(j.Profile.Clock) / (1 - lost))
		for clocks, changed := int(d/lately), true; changed; clocks = 0 {
			j.wish, err = w.Book.Report(w.Now, j.ID, tiers.Served{Profile: j.Profile, Owners: j.owners, Clocks: clocks, Lately: lately, OnlyServes: !w.Works})
			if err != nil {
				return false, fmt.Errorf("job %s: %w", j.ID, err)
			}
			if changed, err = w.obey(j); err != nil {
				return false, err
			}
			news = w.place() || news
		}
	}
	return news, nil
}

// obey carries out the answer like a job's controller. It reports whether the job's slots or serving slots have changed.
func (w *World) obey(j *Job) (changed bool, err error) {
	was, had := j.owners, len(j.slots)
	for len(j.slots) > 1+j.wish.More {
		leaves := j.slots[len(j.slots)-1]
		if i := slices.Index(j.slots, provisioner.InstanceID(j.wish.Leave)); i >= 0 {
			leaves = j.slots[i]
		}
		w.giveBack(j, leaves)
	}
	for len(j.slots) < 1+j.wish.More {
		if err := w.ask(j); err != nil {
			return false, err
		}
		w.place()
	}
	if len(j.slots) != had {
		w.spread(j)
	}
	stray := func(owner step.ID) bool { return !slices.Contains(j.slots, provisioner.InstanceID(owner)) }
	if len(j.wish.Owners) > 0 && !slices.ContainsFunc(j.wish.Owners, stray) {
		w.own(j, j.wish.Owners)
	}
	return len(j.slots) != had || !slices.Equal(was, j.owners), nil
}

func (w *World) ask(j *Job) error {
	j.asked++
	got, err := w.Book.Ask(w.Now, 0, j.ID, provisioner.Request{Token: fmt.Sprintf("%s-%d", j.ID, j.asked), Count: 1,
		Pool: market.Pool{Provider: "local", Region: "here", Zone: "here", Type: j.Type, Class: market.OnDemand}}, hosts.Size{})
	if err != nil {
		return err
	}
	j.slots = append(j.slots, got[0].ID)
	if len(j.slots) == 1 {
		w.spread(j)
	}
	return nil
}

func (w *World) giveBack(j *Job, s provisioner.InstanceID) {
	w.Book.Return(w.Now, j.ID, s)
	for _, host := range w.hosts {
		w.Book.Gone(w.Now, host, s, "ended") // the others have no such slot
	}
	j.slots = slices.DeleteFunc(slices.Clone(j.slots), func(o provisioner.InstanceID) bool { return o == s })
}

// spread makes all of a job's slots serve its partitions.
func (w *World) spread(j *Job) {
	if len(j.slots) == 0 {
		return
	}
	owners := make([]step.ID, len(j.Profile.Serving))
	for i := range owners {
		owners[i] = step.ID(j.slots[i%len(j.slots)])
	}
	w.own(j, owners)
}

func (w *World) own(j *Job, owners []step.ID) {
	for i := range owners {
		if len(j.owners) > 0 && owners[i] != j.owners[i] {
			w.Moves++
		}
	}
	j.owners = owners
}

// place buys hosts for waiting slots, and gives empty ones back. It reports whether the book has decided anything since the last call.
func (w *World) place() (news bool) {
	for fresh := w.Book.Place(w.Now, step.Reliable); fresh > 0; fresh = w.Book.Place(w.Now, step.Reliable) {
		for range fresh {
			w.made++
			id := step.ID(fmt.Sprintf("host-%06d", w.made))
			w.Book.AddHost(id, step.Reliable, w.host)
			w.hosts = append(w.hosts, id)
		}
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(id step.ID) bool {
		empty := len(w.Book.On(id)) == 0
		if empty {
			w.Book.EndHost(w.Now, id, "it is empty", true)
		}
		return empty
	})
	for _, l := range w.Book.Lines() {
		if l.Kind == hosts.Preferred || l.Kind == hosts.Judged {
			news = true
			w.Last = append(w.Last[max(len(w.Last)-9, 0):], fmt.Sprintf("%s %s +%d %s: %s", l.Kind, l.Job, l.More, l.Host, l.Why))
		}
	}
	return news
}

// losses returns the share of its speed that each job loses: it has its share of what hosts with more load have, of vCPUs and of each
// direction of the network.
func (w *World) losses() map[string]float64 {
	at, load, in, out := map[step.ID]step.ID{}, map[step.ID]float64{}, map[step.ID]float64{}, map[step.ID]float64{}
	for _, id := range w.hosts {
		for _, s := range w.Book.On(id) {
			at[step.ID(s.ID)] = id
		}
	}
	for _, j := range w.jobs {
		for i, owner := range j.owners {
			load[at[owner]] += float64(j.Profile.Serving[i]) / float64(j.Profile.Clock)
			if j.Profile.In != nil && w.link > 0 {
				in[at[owner]] += float64(j.Profile.In[i]) / j.Profile.Clock.Seconds() / w.link
				out[at[owner]] += float64(j.Profile.Out[i]) / j.Profile.Clock.Seconds() / w.link
			}
		}
	}
	lost := map[string]float64{}
	for _, j := range w.jobs {
		for _, owner := range j.owners {
			lost[j.ID] = max(lost[j.ID], 1-1/max(load[at[owner]]/float64(w.host.VCPU), in[at[owner]], out[at[owner]], 1))
		}
	}
	return lost
}
