// Package shared shows machines that jobs share: hosts with the jobs on them, free capacity, dollars per hour, the payer, and why each job
// has what it has. `tierml hosts ps`, the job server's API and the dashboard show the same View. It is computed from the journal of the
// shared hosts' run and their book of slots.
//
// It is plain values: no clock, no file, no screen. It does not know how slots are granted.
package shared

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/status"
)

// App is the application name in the journal of a run of shared hosts.
const App = "hosts"

// View is a run of shared hosts at a time. Money is a decimal string of US dollars, empty if unknown or hidden from the client.
type View struct {
	Run   string `json:"run"`
	Hosts []Host `json:"hosts"` // that have not ended
	// Lacks is why there is no host although slots wait for one; empty = there is one, or none is wanted.
	Lacks string   `json:"lacks,omitempty"`
	Jobs  []Tenant `json:"jobs"` // that have slots, or wait for some
	Bill  []Pay    `json:"bill"`
	Total string   `json:"total_usd"` // of all hosts so far
	// PerHour is the hosts' present hourly cost, Idle the part of it that no slot pays.
	PerHour string `json:"usd_per_hour"`
	Idle    string `json:"idle_usd_per_hour"`
	// Waited is the longest waiting time of a slot without a host, in seconds of market time.
	Waited float64 `json:"longest_wait_seconds,omitempty"`
	// Replayed: the market is a recording, so that its dollars are not real.
	Replayed bool `json:"replayed,omitempty"`
}

// Host is a machine that jobs share.
type Host struct {
	Host    string     `json:"host"`
	Pool    string     `json:"pool"`
	Tier    string     `json:"tier"`
	Leaving bool       `json:"leaving,omitempty"` // it has notice, or is being ended
	Slots   int        `json:"slots"`
	Used    hosts.Size `json:"used"`
	Free    hosts.Size `json:"free"`
	Size    hosts.Size `json:"size"`
	Jobs    []string   `json:"jobs"`                 // sorted
	Others  int        `json:"other_jobs,omitempty"` // jobs whose names are hidden from the client
	PerHour string     `json:"usd_per_hour"`
	// Serves is the number of cores that serving takes on a reliable host, by measured profiles.
	Serves float64 `json:"serving_cores,omitempty"`
}

// OthersText counts the jobs without names.
func (h Host) OthersText() string {
	switch {
	case h.Others == 0:
		return ""
	case len(h.Jobs) > 0:
		return fmt.Sprintf("and %d more", h.Others)
	case h.Others == 1:
		return "1 job of others"
	}
	return fmt.Sprintf("%d jobs of others", h.Others)
}

// Tenant is a job's share of the hosts.
type Tenant struct {
	Job     string   `json:"job"`
	Slots   int      `json:"slots"`             // on hosts
	Waiting int      `json:"waiting,omitempty"` // slots that wait for a host
	Hosts   []string `json:"hosts"`
	PerHour string   `json:"usd_per_hour"` // its share of the hosts' price now
	Why     string   `json:"why"`
	// Serves is how much of a core serving the job's model takes, and Loss the share of its speed that it is expected to lose on reliable
	// hosts because others are served on the same hosts. Both are absent until the job has been measured.
	Serves float64  `json:"serving_cores,omitempty"`
	Loss   *float64 `json:"expected_loss,omitempty"`
}

// ServesText formats Serves; "" = none is measured.
func (h Host) ServesText() string { return coresText(h.Serves) }

// ServesText formats Serves; "" = not measured.
func (j Tenant) ServesText() string { return coresText(j.Serves) }

func coresText(cores float64) string {
	if cores == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", cores)
}

// LossText formats Loss; "" = unknown.
func (j Tenant) LossText() string {
	if j.Loss == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100**j.Loss)
}

// Run returns the run of a job, on the host of its process.
func (j Tenant) Run() string { return RunOf(j.Job) }

// Pay is what a job has paid; job "" is the idle share.
type Pay struct {
	Job  string `json:"job"`
	Held int    `json:"slots"`
	USD  string `json:"usd"`
}

// RunOf returns the run of a job name used by slots: it ends in eight digits that distinguish runs of one name.
func RunOf(job string) string {
	if i := strings.LastIndexByte(job, '-'); i >= 0 && len(job)-i-1 == 8 {
		return job[:i]
	}
	return job
}

// Size returns the size of all hosts together.
func (v View) Size() (sum hosts.Size) {
	for _, h := range v.Hosts {
		sum = sum.Plus(h.Size)
	}
	return sum
}

// reliable returns the load that reliable hosts can serve. Network is that of machine types.
func (v View) reliable(network map[string]float64) map[step.ID]hosts.Load {
	has := map[step.ID]hosts.Load{}
	for _, h := range v.Hosts {
		if pool, err := market.ParsePool(h.Pool); err == nil && h.Tier == string(step.Reliable) {
			has[step.ID(h.Host)] = hosts.Capacity(h.Size, network[pool.Type])
		}
	}
	return has
}

// Free returns the free resources of the staying hosts.
func (v View) Free() (sum hosts.Size) {
	for _, h := range v.Hosts {
		if !h.Leaving {
			sum = sum.Plus(h.Free)
		}
	}
	return sum
}

// New views shared hosts at a market time, from their run's status and book. Granted are a scheduler's reasons, by run.
func New(run string, s *status.Status, book *hosts.Book, at time.Time, granted map[string]string) (View, error) {
	v := View{Run: run, Hosts: []Host{}, Jobs: []Tenant{}, Bill: []Pay{}, Replayed: !s.Mapping.IsReal()}
	sizes, network := map[string]hosts.Size{}, map[string]float64{}
	for _, m := range s.Start.Machines {
		network[m.Name] = m.Network
		sizes[m.Name] = hosts.Size{VCPU: m.VCPU, MemoryMiB: m.MemoryMiB}
	}
	jobs := map[string]*holder{}
	of := func(slot *hosts.Slot) *holder {
		if jobs[slot.Job] == nil {
			jobs[slot.Job] = &holder{Tenant: Tenant{Job: slot.Job, Hosts: []string{}}}
		}
		return jobs[slot.Job]
	}
	var perHour, idle price
	for _, m := range s.Machines() {
		pool, err := market.ParsePool(m.Pool)
		if err != nil {
			return v, err
		}
		h := Host{Host: m.ID, Pool: m.Pool, Tier: m.Tier, Leaving: m.Leaving, Size: sizes[pool.Type], Jobs: []string{}}
		rate, on := parsed(m.Price), book.On(step.ID(m.ID))
		rest, crowd := rate, hosts.Crowd(h.Size, on)
		h.Used = book.Used(step.ID(m.ID))
		h.Free = h.Size.Minus(h.Used)
		for _, slot := range on {
			h.Slots++
			j, share := of(slot), rate.share(slot.Size, h.Size, crowd)
			j.Slots++
			j.perHour.add(share)
			rest.add(price{-share.usd, share.unknown})
			h.Jobs, j.Hosts = append(h.Jobs, slot.Job), append(j.Hosts, m.ID)
		}
		slices.Sort(h.Jobs)
		h.Jobs, h.PerHour = slices.Compact(h.Jobs), rate.String()
		perHour.add(rate)
		idle.add(rest)
		v.Hosts = append(v.Hosts, h)
	}
	v.PerHour, v.Idle = perHour.String(), idle.String()
	serving := book.Serving(v.reliable(network))
	for i := range v.Hosts {
		v.Hosts[i].Serves = serving.Load[step.ID(v.Hosts[i].Host)].Cores
	}
	for _, slot := range book.Slots() {
		if slot.Ended.IsZero() && slot.Host == "" {
			j := of(slot)
			j.Waiting++
			v.Waited = max(v.Waited, at.Sub(slot.Asked).Seconds())
			j.asked = slot
		}
	}
	if state, why := s.State(true); state == status.Waiting && v.Waited > 0 {
		v.Lacks = strings.TrimPrefix(strings.TrimPrefix(why, "no machine"), ": ")
	}
	for _, j := range jobs {
		slices.Sort(j.Hosts)
		j.Hosts, j.PerHour, j.Why = slices.Compact(j.Hosts), j.perHour.String(), j.why(granted[j.Run()])
		j.Serves = book.ProfileOf(j.Tenant.Job).Cores()
		if loss, known := serving.Loss[j.Tenant.Job]; known {
			j.Loss = &loss
		}
		v.Jobs = append(v.Jobs, j.Tenant)
	}
	slices.SortFunc(v.Jobs, func(a, b Tenant) int { return cmp.Or(runs.Compare(a.Run(), b.Run()), cmp.Compare(a.Job, b.Job)) })

	total, err := s.Ledger.Spent(at) // including what running hosts owe: slots may be settled before their hosts are
	if err != nil {
		return v, err
	}
	bill := book.BillOf(total, at, func(host step.ID) (hosts.Size, []market.Charge) {
		pool, charges, bad := s.Ledger.Charges(string(host), at)
		err = errors.Join(err, bad)
		return sizes[pool.Type], charges
	})
	if err != nil {
		return v, err
	}
	for _, job := range slices.Sorted(maps.Keys(bill.Jobs)) {
		pay := Pay{Job: job, USD: bill.Jobs[job].String()}
		if j := jobs[job]; j != nil {
			pay.Held = j.Slots
		}
		v.Bill = append(v.Bill, pay)
	}
	v.Bill, v.Total = append(v.Bill, Pay{USD: bill.Idle.String()}), total.String()
	return v, nil
}

// holder is a Job in the making.
type holder struct {
	Tenant
	perHour price
	asked   *hosts.Slot // the last requested one that waits
}

// why returns the reason for what a job has, a scheduler's if there is one, and what is missing.
func (j *holder) why(granted string) string {
	why := cmp.Or(granted, "all slots that it requested")
	if j.Waiting > 0 {
		missing := fmt.Sprintf("%d %s slots (%s each) wait for a host with room", j.Waiting, j.asked.Tier, j.asked.Size)
		if j.Waiting == 1 {
			missing = fmt.Sprintf("a %s slot (%s) waits for a host with room", j.asked.Tier, j.asked.Size)
		}
		why = strings.TrimPrefix(granted+"; "+missing, "; ")
	}
	return why
}

// For returns the view for a client that may see the jobs of some runs: others are counted, not named, and their reasons and costs are
// omitted. A client that sees the run "" sees all.
func (v View) For(sees func(run string) bool) View {
	hidden := func(job string) bool { return !sees(RunOf(job)) }
	out := v
	out.Hosts = []Host{}
	for _, h := range v.Hosts {
		all := len(h.Jobs)
		h.Jobs = slices.DeleteFunc(slices.Clone(h.Jobs), hidden)
		h.Others = all - len(h.Jobs)
		out.Hosts = append(out.Hosts, h)
	}
	out.Jobs = slices.DeleteFunc(slices.Clone(v.Jobs), func(j Tenant) bool { return hidden(j.Job) })
	out.Bill = slices.DeleteFunc(slices.Clone(v.Bill), func(p Pay) bool { return hidden(p.Job) })
	if !sees("") {
		out.Total, out.Idle, out.Waited = "", "", 0
	}
	return out
}

// price is dollars per hour, unless any part of it is unknown.
type price struct {
	usd     market.USD
	unknown bool
}

func parsed(text string) price {
	usd, err := market.ParseUSD(text)
	return price{usd, err != nil}
}

func (p *price) add(o price) { p.usd, p.unknown = p.usd+o.usd, p.unknown || o.unknown }

// share returns what a slot pays of the host's hourly price, divided by the crowd of its slots.
func (p price) share(slot, host hosts.Size, crowd int64) price {
	if p.unknown || host.VCPU == 0 || host.MemoryMiB == 0 {
		return price{unknown: true}
	}
	from := time.Time{}
	to := from.Add(time.Hour)
	return price{usd: hosts.Share(slot, host, crowd, from, to, []market.Charge{{From: from, To: to, Amount: p.usd}})}
}

func (p price) String() string {
	if p.unknown {
		return ""
	}
	return p.usd.String()
}
