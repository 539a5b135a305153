// Package tempo has the controller's timing: how long it waits, and how often it acts. Plan, dry run and run of a job use the same
// Settings, which Of derives from where the job runs.
//
// It does not know how long things really take (sim models that) or which provider is used.
package tempo

import "time"

// Place is where a job runs, as far as its settings depend on it. Durations are in wall-clock time.
type Place struct {
	// Remote: a provider's API sells the machines. It limits calls, and machines take minutes to boot. Otherwise they are processes of a
	// fake cloud on this host.
	Remote    bool
	Speed     float64       // market seconds per wall-clock second: 1 for real machines
	Boot      time.Duration // from the request for a machine until its agent calls
	Wait      time.Duration // additional time if machines wait in a queue, such as for a quota
	Notice    time.Duration // of the provider, before an eviction
	DeadAfter time.Duration // silence after which a machine is given up
}

// Assumptions about real machines.
const (
	// RemoteBoot and remoteBegin add up to 5 minutes from the request for a machine until it works, as TierML (CMU-PDL-16-102) assumes.
	// They have not been measured.
	RemoteBoot  = 4*time.Minute + 30*time.Second
	remoteBegin = 30 * time.Second
	// RemoteDeadAfter is the default for hosts that share a network with others: 15 heartbeats.
	RemoteDeadAfter = 30 * time.Second
)

// Remote returns the place of a job on a real cloud with this notice.
func Remote(notice time.Duration) Place {
	return Place{Remote: true, Speed: 1, Boot: RemoteBoot, Notice: notice, DeadAfter: RemoteDeadAfter}
}

// Settings are the controller's durations, in market time unless noted.
type Settings struct {
	Speed  float64 // market seconds per wall-clock second
	Remote bool    // see Place

	CutEvery      time.Duration // the shortest time between cuts; bandwidth may make it longer
	DeadAfter     time.Duration // silence after which a node is given up
	BrokenAfter   time.Duration // time for a node whose stream broke to reconnect
	JoinWait      time.Duration // how long ready machines wait for others, to join together
	NoticeWait    time.Duration // how long the first notice waits for more: a bulk eviction arrives as many notices
	BootWithin    time.Duration // time for a bought machine's agent to call
	DrainMargin   time.Duration // how long before their paid hour ends released machines are terminated
	StopTakes     time.Duration // duration of a graceful end, for which a budget reserves money
	RetryCapacity time.Duration // how long a pool without capacity is avoided
	PlanEvery     time.Duration // interval between decisions of the policy without events
	Startup       time.Duration // the expected time from the request for a machine until it works; for the policy
	Begin         time.Duration // the last part of Startup: after its agent's call
	Notice        time.Duration // of the provider, before an eviction; for the policy
	Lag           time.Duration // the longest time from a machine's end until the controller knows; for the policy
}

// lengths are the settings that differ between local and remote machines, in wall-clock time.
type lengths struct{ cut, broken, join, notice, drain, begin, stop time.Duration }

var (
	// near: a fake cloud's machines are processes of this host, and its market is replayed at hundreds of times the speed: a billed hour
	// may last 6 seconds. Machines were ready 20 to 160 ms after their boot (examples/demo.yaml, two cores), and load in 20 ms.
	near = lengths{
		cut: 1500 * time.Millisecond, broken: 300 * time.Millisecond, join: 1500 * time.Millisecond, notice: 150 * time.Millisecond,
		drain: 1200 * time.Millisecond, begin: 200 * time.Millisecond, stop: 2 * time.Second,
	}
	// far: cuts are sent in the background and cost only their share of the link, which their pace limits, so that they are frequent enough
	// for the loss to be small compared with the 5 minutes that a replacement takes. A machine that leaves before its paid hour ends hands
	// over like one with an EC2 warning, and has as long: 2 minutes.
	far = lengths{
		cut: time.Minute, broken: 30 * time.Second, join: time.Minute, notice: 3 * time.Second, drain: 2 * time.Minute, begin: remoteBegin, stop: 2 * time.Minute,
	}
)

const (
	bootWithin = 10 * time.Minute // wall-clock time
	// shortNotice is too short to carry parameters after a long wait.
	shortNotice = time.Minute
	// shortWait is how long the first of such notices waits for more.
	shortWait = time.Second
	// retryCapacity is in market time: the pool's market has to change.
	retryCapacity = 10 * time.Minute
	// The policy also decides at every event and price change. On a replayed market this is in market time: hours pass in seconds, and the
	// paper's switch waits for five minutes.
	planEveryNear = time.Minute
	planEveryFar  = 10 * time.Minute
)

// Of returns the settings of a job that runs at a place.
func Of(p Place) Settings {
	l, planEvery := near, planEveryNear
	if p.Remote {
		l, planEvery = far, planEveryFar
		if p.Notice <= shortNotice {
			l.notice = shortWait
		}
	}
	s := Settings{Speed: p.Speed, Remote: p.Remote, RetryCapacity: retryCapacity, PlanEvery: planEvery}
	s.CutEvery, s.BrokenAfter, s.JoinWait = s.Market(l.cut), s.Market(l.broken), s.Market(l.join)
	s.NoticeWait, s.DrainMargin, s.StopTakes = s.Market(l.notice), s.Market(l.drain), s.Market(l.stop)
	s.DeadAfter, s.Lag = s.Market(p.DeadAfter), s.Market(p.DeadAfter)
	s.Startup, s.Begin, s.Notice = s.Market(p.Boot+l.begin), s.Market(l.begin), s.Market(p.Notice)
	s.BootWithin = max(s.Market(bootWithin), 2*s.Startup) + s.Market(p.Wait) // machines may be slow
	return s
}

// Market returns the market time of a wall-clock duration.
func (s Settings) Market(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * s.Speed)
}

// Wall returns the wall-clock time of a market duration.
func (s Settings) Wall(market time.Duration) time.Duration {
	return time.Duration(float64(market) / s.Speed)
}
