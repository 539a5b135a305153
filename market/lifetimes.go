package market

import "time"

// Lifetimes summarises how long a pool's machines were kept. Machines that their buyer ended, or that still run,
// are censored: their time counts, their end does not.
type Lifetimes struct {
	Machines int           // number observed
	Evicted  int           // those that the provider reclaimed
	Watched  time.Duration // machine time of all
	Since    time.Time     // of the oldest observation; zero = none
	Newest   time.Time     // of the newest one
}

// Add counts one machine's life, as known at a time.
func (l *Lifetimes) Add(u Usage, at time.Time) {
	if at.Before(u.Start) {
		return // not launched yet
	}
	end := at
	if u.EndedBy != Running && !u.End.After(at) {
		end = u.End
		if u.EndedBy == ByProvider {
			l.Evicted++
		}
	}
	l.Machines++
	l.Watched += end.Sub(u.Start)
	if l.Since.IsZero() || u.Start.Before(l.Since) {
		l.Since = u.Start
	}
	if end.After(l.Newest) {
		l.Newest = end
	}
}

// Join returns the combined lifetimes.
func (l Lifetimes) Join(o Lifetimes) Lifetimes {
	since := l.Since
	if since.IsZero() || !o.Since.IsZero() && o.Since.Before(since) {
		since = o.Since
	}
	newest := l.Newest
	if o.Newest.After(newest) {
		newest = o.Newest
	}
	return Lifetimes{
		Machines: l.Machines + o.Machines, Evicted: l.Evicted + o.Evicted, Watched: l.Watched + o.Watched, Since: since, Newest: newest,
	}
}
