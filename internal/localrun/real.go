package localrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// This file is what real clouds have in common: machines elsewhere, that have nothing of ours when they begin, live on when
// a controller ends, and are asked about through an API that limits calls.

// How often a real cloud is looked at.
const (
	realPollPrices  = time.Minute
	realPollCloud   = 5 * time.Second
	realPollNotices = 5 * time.Second
	realCallTimeout = 2 * time.Minute
	// forgotten is how long after its latest end a run's machine is no longer wanted by anybody.
	forgotten = time.Hour
)

// looks is how often a cloud is asked, and how long an answer may take.
type looks struct{ prices, cloud, calls time.Duration }

func (r *session) looks() looks {
	switch r.cfg.Job.Cloud {
	case config.CloudEC2:
		return looks{prices: realPollPrices, cloud: realPollCloud, calls: realCallTimeout}
	case config.CloudGCE:
		l := looks{prices: realPollPrices, cloud: realPollCloud, calls: gceCallTimeout}
		if r.cfg.Job.GCE.Prices != "" {
			l.prices = realPollCloud // nobody is asked, and a machine's bill is made when prices are known up to its end
		}
		return l
	}
	return looks{prices: pollPrices, cloud: pollCloud, calls: callTimeout}
}

// real is the installation from which machines come, or what is at its endpoint; nil = they come from a cloud of this
// program, or one that `tierml fakecloud` runs.
func (r *session) real() *config.Installation { return r.cfg.Job.Installation() }

// outlived reports whether machines live on when a controller ends.
func (r *session) outlived() bool { return r.cfg.Endpoint != "" || r.real() != nil }

// unique names this run among all of an account, or of a fake cloud that outlives it: two controllers may have runs of one name,
// and each would take the other's machines for strays.
func (r *session) unique() string {
	if !r.outlived() {
		return r.name
	}
	sum := sha256.Sum256([]byte("name " + r.state.Secret))
	return r.name + "-" + hex.EncodeToString(sum[:4])
}

// dataPlane names this run on the data plane. Runs of one name differ, and nobody else can tell the name.
func (r *session) dataPlane() string {
	sum := sha256.Sum256([]byte("data plane " + r.state.Secret))
	return r.name + "-" + hex.EncodeToString(sum[:8])
}

// expires is when nobody wants machines any more that this controller buys.
func (r *session) expires() time.Time {
	_, latest := clock.Between()
	return latest.Add(r.cfg.Job.MaxDuration + forgotten).UTC().Truncate(time.Second)
}

// listenAt is where machines are waited for, with any port.
func (r *session) listenAt() (string, error) {
	at := r.real()
	switch {
	case at == nil:
		return "127.0.0.1:0", nil
	case at.Listen != "":
		return at.Listen, nil
	}
	// This host's end of the way to the metadata service, which every machine of the provider has; nothing is sent.
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

// placeSplits carries the splits to where machines elsewhere read them, and gives that place.
func (r *session) placeSplits(ctx context.Context) (string, error) {
	if r.real() == nil {
		return r.splits(), nil
	}
	folder := blob.Join(r.state.Checkpoints, "splits")
	if r.cfg.Past != nil && len(r.cfg.Past.Machines) > 0 {
		return folder, nil // they are there: machines have been bought
	}
	return folder, splitdir.Upload(ctx, r.splits(), folder, r.cfg.Job.Train.Splits)
}

// first is what a machine's first script does before it runs the agent, by provider.
type first struct {
	data        string // its user data, where a comment of the script holds it; else empty
	fetch       string // command that puts the program in tierml.new
	environment string // for the agent
}

// firstScript starts the agent on a machine that has nothing of ours yet, and powers the machine off when the agent has
// ended, however that comes: a machine without one only costs money. Before anything else it sets a timer that powers the
// machine off after so many minutes, whatever hangs; the agent puts it off while it hears its controller.
func firstScript(f first, sha256 string, minutes int) string {
	if f.data != "" {
		f.data = node.ScriptMark + f.data + "\n"
	}
	return strings.NewReplacer("<user data>\n", f.data, "<fetch>", f.fetch, "<sha256>", sha256, "<environment>", f.environment,
		"<minutes>", strconv.Itoa(minutes)).Replace(scriptText)
}

// powerOffAfter is the timer of a machine, in minutes: its boot, or a controller's absence, may last so long. It is over before
// the machine's lease on EC2 is: see leaseFrom.
func powerOffAfter(job *config.Job) int {
	return int((job.OrphanAfter + leaseBeyond + time.Minute - 1) / time.Minute)
}

// curlCommand fails instead of waiting for an address that does not answer, or that stalls.
const curlCommand = "curl --fail --silent --show-error --connect-timeout 10 --speed-limit 1024 --speed-time 30 --max-time 600 --retry 5 --retry-max-time 120"

// curl fetches the program from an address.
func curl(address string) string {
	return curlCommand + " --location --output tierml.new '" + address + "'"
}

// fetchFromS3 ends a copy that stalls.
func fetchFromS3(address, region string) string {
	return "timeout 600 aws s3 cp --region '" + region + "' --no-progress '" + address + "' tierml.new"
}

const scriptText = `#!/bin/bash
<user data>
export TIERML_POWER_OFF="${TIERML_POWER_OFF:-shutdown --no-wall -P}" TIERML_POWER_OFF_AFTER=<minutes>
trap '$TIERML_POWER_OFF now' EXIT
set -euo pipefail
timeout 60 $TIERML_POWER_OFF +$TIERML_POWER_OFF_AFTER
umask 077
mkdir -p "${TIERML_HOME:=/var/lib/tierml}"
cd "$TIERML_HOME"
fetch() {
  <fetch>
}
for pause in 1 5 20 60 -; do
  if fetch && echo '<sha256>  tierml.new' | sha256sum --check --strict; then break; fi
  if [ $pause = - ]; then echo 'the program could not be fetched, or is not the one that was meant' >&2; exit 1; fi
  sleep $pause
done
chmod 0755 tierml.new
mv tierml.new tierml
export <environment> TIERML_KEY_FILE="$TIERML_HOME/agent.key"
code=4
while [ $code = 4 ]; do # given up while it lived: it joins again, empty
  code=0
  ./tierml agent || code=$?
done
exit $code
`
