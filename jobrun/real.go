package jobrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// This file has what real clouds have in common: remote machines that begin without our software, outlive their controller, and are queried
// through an API that limits calls.

// Polling intervals for a real cloud.
const (
	realPollCloud   = 5 * time.Second
	realPollNotices = 5 * time.Second
	// forgotten is how long after its latest end a run's machine is no longer wanted.
	forgotten = time.Hour
)

// real returns the installation that supplies machines, or what is at its endpoint; nil = a cloud of this program, or one that `tierml
// fakecloud` runs.
func (r *session) real() *config.Installation { return r.cfg.Job.Installation() }

// outlived reports whether machines outlive their controller.
func (r *session) outlived() bool { return r.cfg.Endpoint != "" || r.real() != nil }

// unique names this run uniquely in an account, or in a fake cloud that outlives it: two controllers may have runs of one name, and each
// would treat the other's machines as strays.
func (r *session) unique() string {
	if !r.outlived() {
		return r.name
	}
	sum := sha256.Sum256([]byte("name " + r.state.Secret))
	return r.name + "-" + hex.EncodeToString(sum[:4])
}

// dataPlane names this run on the data plane. Runs of one name differ, and the name cannot be guessed.
func (r *session) dataPlane() string {
	sum := sha256.Sum256([]byte("data plane " + r.state.Secret))
	return r.name + "-" + hex.EncodeToString(sum[:8])
}

// expires returns when the leases of machines that this controller buys end.
func (r *session) expires() time.Time {
	_, latest := clock.Between()
	return latest.Add(r.cfg.Job.MaxDuration + forgotten).UTC().Truncate(time.Second)
}

// listenAt returns the address on which machines are expected, with any port.
func (r *session) listenAt() (string, error) {
	at := r.real()
	switch {
	case at == nil:
		return "127.0.0.1:0", nil
	case at.Listen != "":
		return at.Listen, nil
	}
	// The local address of the route to the metadata service, which every machine of the provider has; nothing is sent.
	way, err := net.Dial("udp", "169.254.169.254:80")
	if err != nil {
		return "", fmt.Errorf("finding this host's address; write %s.listen: %w", at.Block, err)
	}
	defer way.Close()
	host, _, err := net.SplitHostPort(way.LocalAddr().String())
	if err != nil {
		return "", fmt.Errorf("finding this host's address; write %s.listen: %w", at.Block, err)
	}
	return net.JoinHostPort(host, "0"), nil
}

// placeSplits copies the splits to where remote machines read them, and returns that place.
func (r *session) placeSplits(ctx context.Context) (string, error) {
	if r.real() == nil {
		return r.splits(), nil
	}
	folder := location.Join(r.state.Checkpoints, "splits")
	if r.cfg.Past != nil && len(r.cfg.Past.Machines) > 0 {
		return folder, nil // they are there: machines have been bought
	}
	return folder, splitdir.Upload(ctx, r.splits(), folder, r.cfg.Job.Train.Splits)
}

// powerOffAfter returns the timer of a machine, in minutes: its boot, or a controller's absence, may last this long. It ends before
// the shortest lease of a machine: see leaseFrom.
func (r *session) powerOffAfter() int {
	return int((r.cfg.Job.OrphanAfter + leaseBeyond + time.Minute - 1) / time.Minute)
}
