package planner

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/ps"
)

// Exchange is what a job on tiers transfers in a round. It is zero for other jobs.
type Exchange struct {
	Bytes    int64         // received by a replica
	Back     int64         // delivered by it
	Reliable time.Duration // time for this at the reliable machines' links, for all replicas; 0 = unknown
	Machine  time.Duration // time for a delivery at a replica's link; 0 = unknown
	Notice   time.Duration // before an eviction, in wall-clock time; 0 = unknown
}

// ExchangeOf returns the exchange of a job: the rows in transit form, at the links' declared rates. The slowest type counts.
func ExchangeOf(job *config.Job, choice Resolved) Exchange {
	if !job.OnTiers() {
		return Exchange{}
	}
	x := Exchange{Bytes: 4 * int64(job.Tiers.Parameters), Notice: job.Place().Notice}
	switch transport := ps.TransportOf(job.Tiers.Transport); {
	case transport != ps.Whole:
		x.Back = int64(transport.Bytes(int(job.Tiers.Parameters)))
	case job.Tiers.Deterministic: // fixed point
		x.Back = 2 * x.Bytes
	default:
		x.Back = x.Bytes
	}
	if link := choice.Reliable.Type.Bandwidth * float64(choice.Reliable.Count); link > 0 {
		x.Reliable = seconds(float64(x.Bytes+x.Back) * float64(job.Resources.Count.Most) / link)
	}
	for _, p := range choice.Pools {
		if link := p.Type.Bandwidth; link > 0 {
			x.Machine = max(x.Machine, seconds(float64(x.Back)/link))
		}
	}
	return x
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// line describes the exchange.
func (x Exchange) line() (value, detail string) {
	back, way := "as much", "each way"
	if x.Back != x.Bytes {
		back, way = Bytes(x.Back), "for that"
	}
	detail = "to each replica in a round, and " + back + " back"
	if x.Machine > 0 {
		detail += fmt.Sprintf("; %s %s at its link", x.Machine.Round(time.Millisecond), way)
	}
	if x.Reliable > 0 {
		detail += fmt.Sprintf(", %s for all at the reliable machines' links", x.Reliable.Round(time.Millisecond))
	}
	return Bytes(x.Bytes), detail
}

// Warning says what cannot be done within an eviction notice; empty = everything can.
func (x Exchange) Warning() string {
	if x.Notice == 0 || x.Machine <= x.Notice {
		return ""
	}
	return fmt.Sprintf("a delivery takes %s at a machine's link and a notice is %s: replicas that are evicted lose their round; take machines with faster links, or a smaller model",
		x.Machine.Round(100*time.Millisecond), x.Notice)
}
