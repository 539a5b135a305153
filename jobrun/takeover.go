package jobrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// gone returns the machines of clouds that ended with their controllers, from their own records, unless the journal has their ends. Unknown
// ones belong to a launch whose answer was not recorded.
func (r *session) gone() ([]provisioner.Instance, error) {
	if r.cfg.Past == nil || r.outlived() {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(r.cfg.Directory, rundir.CloudFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cloud's records: %w", err)
	}
	records, err := fakecloud.ReadRecords(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	wanted := map[provisioner.InstanceID]string{}
	for _, m := range r.cfg.Past.Machines {
		wanted[m.Instance.ID] = m.Instance.Token
	}
	var out []provisioner.Instance
	open := append([]elasticity.PastLaunch(nil), r.cfg.Past.Open...)
	for _, i := range lastLives(records) {
		token, known := wanted[i.ID]
		if !known && !r.cfg.Past.Known[string(i.ID)] {
			token, known = claim(open, i.Pool)
		}
		if known {
			i.Token = token
			out = append(out, i)
		}
	}
	return out, nil
}

// claim finds the launch to which a machine of a pool may belong.
func claim(open []elasticity.PastLaunch, pool market.Pool) (token string, found bool) {
	for i := range open {
		if open[i].Count > 0 && (open[i].Pool == pool || slices.ContainsFunc(open[i].Or, func(c bidding.Choice) bool { return c.Pool == pool })) {
			open[i].Count--
			return open[i].Token, true
		}
	}
	return "", false
}

// lastLives returns the machines of a cloud's records. Those that ran when it was killed ended when it was last alive, as in its bill
// (fakecloud.CloudKilled).
func lastLives(records []fakecloud.Record) []provisioner.Instance {
	var out []provisioner.Instance
	index := map[string]int{}
	var last time.Time
	abandon := func() {
		for i := range out {
			if out[i].Ended.IsZero() {
				out[i].Ended, out[i].EndedBy, out[i].Reason, out[i].Presumed = last.UTC().Truncate(time.Second), market.ByUser, fakecloud.CloudKilled, true
			}
		}
	}
	for _, rec := range records {
		switch rec.Kind {
		case fakecloud.Opened:
			abandon()
		case fakecloud.Launched:
			index[rec.ID] = len(out)
			out = append(out, provisioner.Instance{ID: provisioner.InstanceID(rec.ID), Pool: rec.Pool, Bid: rec.Bid,
				State: provisioner.Terminated, Launched: rec.Launched})
		case fakecloud.Ended:
			if i, ok := index[rec.ID]; ok {
				out[i].Ended, out[i].EndedBy, out[i].Reason = rec.Ended, rec.By, rec.Reason
			}
		}
		last = rec.T
	}
	abandon()
	return out
}

// listenWithin is how long the previous controller's address may take to become free.
const listenWithin = 3 * time.Second

// listen listens for machines, at the address that running ones already call, or else anywhere, and returns the address that machines call.
func (r *session) listen(ctx context.Context) (listener net.Listener, called string, err error) {
	anywhere, err := r.listenAt()
	if err != nil {
		return nil, "", err
	}
	// Hosts of a cloud that ended with its process learn here that they were given up.
	if r.cfg.Past == nil || !r.outlived() && r.cfg.Hosts == nil || r.state.Controller == "" {
		return listenAs(anywhere)
	}
	ctx, cancel := context.WithTimeout(ctx, listenWithin)
	defer cancel()
	for {
		listener, called, err := listenAs(r.state.Controller)
		if err == nil {
			return listener, called, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			r.cfg.Log.Error("the address that the machines call is taken: they will be replaced", "address", r.state.Controller, "err", err)
			return listenAs(anywhere)
		}
	}
}

// listenAs listens at an address, and returns it with the assigned port. A name stays a name: machines resolve it at each call, so the next
// controller may listen on a host with another address and the same name.
func listenAs(address string) (listener net.Listener, called string, err error) {
	if listener, err = net.Listen("tcp", address); err != nil {
		return nil, "", err
	}
	called = listener.Addr().String()
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" && net.ParseIP(host) == nil {
		_, port, _ := net.SplitHostPort(called) // the listener's own
		called = net.JoinHostPort(host, port)
	}
	return listener, called, nil
}
