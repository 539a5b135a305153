package jobrun

import (
	"context"
	"fmt"
	"time"

	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/provisioner"
)

// connect opens the account that the run buys by: the provider's, or at the endpoint of a cloud of this program that simulates it.
func (r *session) connect(ctx context.Context, endpoint string) (cloud providers.Account, err error) {
	s := providers.Session{Run: r.unique(), Clock: r.cfg.Clock, Offers: r.cfg.Offers, Log: r.cfg.Log, Poll: pollNotices, Played: endpoint, Region: r.region()}
	if r.real() != nil {
		s.Played, s.Poll, s.Expires, s.Minutes = "", realPollNotices, r.expires(), r.powerOffAfter()
	}
	if directory, shared := hostsDirectory(endpoint); shared {
		if cloud, err = r.slots(ctx, directory, s); err != nil {
			return nil, err
		}
	} else if cloud, err = r.provider.Open(ctx, r.cfg.Job, s); err != nil {
		return nil, fmt.Errorf("connecting to the cloud: %w", err)
	}
	r.keys, _ = cloud.(providers.RunKeys)
	if r.cfg.Past != nil {
		for _, m := range r.cfg.Past.Machines {
			cloud.Recall(m.Instance)
		}
	}
	if !cloud.Traits().MaxBid {
		cloud = withoutBids{cloud}
	}
	return cloud, nil
}

// withoutBids buys from a provider without bids: a policy's bid is then only its own limit.
type withoutBids struct{ providers.Account }

func (c withoutBids) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	r.Bid = 0
	return c.Account.Launch(ctx, r)
}

// pace returns how often to query the cloud. A cloud of this program is near, and so is the desk of shared hosts.
func (r *session) pace() providers.Pace {
	if r.real() == nil || r.billed() {
		return providers.Pace{Prices: pollPrices, Calls: callTimeout, Lease: leaseBeyond}
	}
	return r.provider.Pace(r.cfg.Job)
}

// pollInstances returns how often the cloud's machines are listed.
func (r *session) pollInstances() time.Duration {
	if r.real() == nil || r.billed() {
		return pollCloud
	}
	return realPollCloud
}
