package wrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// DryRun changes nothing at the provider: it logs what would be launched and terminated, and goes on as if it
// had been. Its machines are pretended (ids "i-dry..."): they are listed beside the real ones, always run, and
// end when asked to; real ones stay as they are. now gives the market time.
func DryRun(cloud provisioner.Cloud, now func() time.Time, log *slog.Logger) provisioner.Cloud {
	return &dryRun{Cloud: cloud, now: now, log: log,
		pretended: map[provisioner.InstanceID]*provisioner.Instance{}, requests: map[string]provisioner.Request{}}
}

type dryRun struct {
	provisioner.Cloud
	now func() time.Time
	log *slog.Logger

	mu        sync.Mutex
	pretended map[provisioner.InstanceID]*provisioner.Instance
	requests  map[string]provisioner.Request // by token
}

func (d *dryRun) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.Validate(d.Traits()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before, again := d.requests[r.Token]
	switch {
	case again && !reflect.DeepEqual(before, r):
		return nil, fmt.Errorf("dry run: %w: token %q has been used for another request", provisioner.ErrInvalid, r.Token)
	case !again:
		d.log.Info("dry run: would launch", "pool", r.Pool.String(), "count", r.Count, "bid", r.Bid.String(), "token", r.Token)
		r.Tags = maps.Clone(r.Tags)
		d.requests[r.Token] = r
		d.pretend(r)
	}
	return d.pick(func(i *provisioner.Instance) bool { return i.Token == r.Token }), nil
}

func (d *dryRun) pretend(r provisioner.Request) {
	launched := d.now().UTC().Truncate(time.Second)
	for n := range r.Count {
		hash := sha256.Sum256(fmt.Appendf(nil, "%s/%d", r.Token, n))
		id := provisioner.InstanceID("i-dry" + hex.EncodeToString(hash[:7]))
		d.pretended[id] = &provisioner.Instance{ID: id, Pool: r.Pool, Bid: r.Bid, Token: r.Token,
			State: provisioner.Running, Launched: launched, Tags: maps.Clone(r.Tags)}
	}
}

func (d *dryRun) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.log.Info("dry run: would terminate", "instance", string(id))
		if i := d.pretended[id]; i != nil && i.State != provisioner.Terminated {
			i.State, i.Ended = provisioner.Terminated, d.now().UTC().Truncate(time.Second)
			i.EndedBy, i.Reason = market.ByUser, "dry run"
		}
	}
	return nil
}

func (d *dryRun) List(ctx context.Context) ([]provisioner.Instance, error) {
	instances, err := d.Cloud.List(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	instances = append(instances, d.pick(func(*provisioner.Instance) bool { return true })...)
	provisioner.SortInstances(instances)
	return instances, nil
}

// pick gives copies of the pretended machines that pass, sorted by id.
func (d *dryRun) pick(pass func(*provisioner.Instance) bool) []provisioner.Instance {
	var selected []provisioner.Instance
	for _, id := range slices.Sorted(maps.Keys(d.pretended)) {
		if i := d.pretended[id]; pass(i) {
			instance := *i
			instance.Tags = maps.Clone(i.Tags)
			selected = append(selected, instance)
		}
	}
	return selected
}
