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

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/config"
	"github.com/tierml/tierml/provisioner/ec2"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/splitdir"
)

// How often a real cloud, which limits calls, is looked at.
const (
	pollPricesEC2  = time.Minute
	pollCloudEC2   = 5 * time.Second
	pollNoticesEC2 = 5 * time.Second
	callTimeoutEC2 = 2 * time.Minute
	// forgotten is how long after its latest end a run's machine is no longer wanted by anybody.
	forgotten = time.Hour
)

// looks is how often a cloud is asked, and how long an answer may take.
type looks struct{ prices, cloud, calls time.Duration }

func (r *session) looks() looks {
	if r.onEC2() {
		return looks{prices: pollPricesEC2, cloud: pollCloudEC2, calls: callTimeoutEC2}
	}
	return looks{prices: pollPrices, cloud: pollCloud, calls: callTimeout}
}

// onEC2 says whether machines come from EC2 itself, or what is at its endpoint, and not from a cloud of this program.
func (r *session) onEC2() bool { return r.cfg.Job.Cloud == config.CloudEC2 }

// outlived says whether machines live on when a controller ends.
func (r *session) outlived() bool { return r.cfg.Endpoint != "" || r.onEC2() }

// unique names this run among all of an account: two controllers may have runs of one name.
func (r *session) unique() string {
	if !r.onEC2() {
		return r.name
	}
	sum := sha256.Sum256([]byte("name " + r.state.Secret))
	return r.name + "-" + hex.EncodeToString(sum[:4])
}

// EC2Config is the adapter's, as a job has it.
func EC2Config(e config.EC2) ec2.Config {
	return ec2.Config{
		Region: e.Region, Cluster: e.Cluster, Owner: e.Owner, Endpoint: e.Endpoint, ImageID: e.Image, Subnets: e.Subnets,
		SecurityGroups: e.SecurityGroups, InstanceProfile: e.InstanceProfile,
		RootVolume: &ec2.RootVolume{Device: e.Device, SizeGiB: int32((e.Disk.MiB + 1023) >> 10)},
	}
}

// connectEC2 makes the adapter for EC2 itself, by the SDK's own way to find credentials.
func (r *session) connectEC2(ctx context.Context) (*ec2.Cloud, error) {
	c := EC2Config(r.cfg.Job.EC2)
	c.Job, c.Generation = r.unique(), strconv.Itoa(r.cfg.Part+1)
	c.Expires = time.Now().Add(r.cfg.Job.MaxDuration + forgotten).UTC().Truncate(time.Second).Format(time.RFC3339)
	c.PollInterval, c.Clock, c.Log = pollNoticesEC2, r.cfg.Clock, r.cfg.Log
	return ec2.New(ctx, c)
}

// listenAt is where machines are waited for, with any port.
func (r *session) listenAt() (string, error) {
	e := r.cfg.Job.EC2
	switch {
	case !r.onEC2():
		return "127.0.0.1:0", nil
	case e.Listen != "":
		return e.Listen, nil
	}
	// This host's end of the way to the metadata service, which every machine of the provider has; nothing is sent.
	way, err := net.Dial("udp", "169.254.169.254:80")
	if err != nil {
		return "", fmt.Errorf("finding this host's address; write ec2.listen: %w", err)
	}
	defer way.Close()
	host, _, err := net.SplitHostPort(way.LocalAddr().String())
	if err != nil {
		return "", fmt.Errorf("finding this host's address; write ec2.listen: %w", err)
	}
	return net.JoinHostPort(host, "0"), nil
}

// placeSplits carries the splits to where machines elsewhere read them, and gives that place.
func (r *session) placeSplits(ctx context.Context) (string, error) {
	if !r.onEC2() {
		return r.splits(), nil
	}
	folder := blob.Join(r.state.Checkpoints, "splits")
	if r.cfg.Past != nil && len(r.cfg.Past.Machines) > 0 {
		return folder, nil // they are there: machines have been bought
	}
	return folder, splitdir.Upload(ctx, r.splits(), folder, r.cfg.Job.Train.Splits)
}

// timedAsEC2 puts the times of a real cloud in the place of those of one on this host.
func timedAsEC2(c *elasticity.Config) {
	t := sim.EC2()
	c.CutEvery, c.BrokenAfter, c.JoinWait, c.NoticeWait, c.DrainMargin = time.Minute, t.BrokenAfter, t.JoinWait, t.NoticeWait, 20*time.Second
	c.RetryCapacity, c.PlanEvery, c.Startup = t.RetryCapacity, t.PlanEvery, t.Boot+t.Start
}

// bootScript starts the agent on a machine that has nothing of ours yet, and powers the machine off when the agent has
// ended, however that comes: a machine without one only costs money. (EC2 then terminates it: see the adapter.)
func bootScript(u node.UserData, p config.Program, region string) string {
	fetch := "curl --fail --silent --show-error --location --retry 5 --output tierml.new '" + p.URL + "'"
	if strings.HasPrefix(p.URL, "s3://") {
		fetch = "aws s3 cp --region '" + region + "' --no-progress '" + p.URL + "' tierml.new"
	}
	return strings.NewReplacer("<user data>", u.Encode(), "<fetch>", fetch, "<sha256>", p.SHA256, "<region>", region).Replace(firstScript)
}

const firstScript = `#!/bin/bash
` + node.ScriptMark + `<user data>
set -euo pipefail
trap '${TIERML_POWER_OFF:-shutdown -h now}' EXIT
umask 077
mkdir -p "${TIERML_HOME:=/var/lib/tierml}"
cd "$TIERML_HOME"
for pause in 1 5 20 60 -; do
  if <fetch> && echo '<sha256>  tierml.new' | sha256sum --check --strict; then break; fi
  if [ $pause = - ]; then echo 'the program could not be fetched, or is not the one that was meant' >&2; exit 1; fi
  sleep $pause
done
chmod 0755 tierml.new
mv tierml.new tierml
export AWS_REGION='<region>' TIERML_KEY_FILE="$TIERML_HOME/agent.key"
code=4
while [ $code = 4 ]; do # given up while it lived: it joins again, empty
  code=0
  ./tierml agent || code=$?
done
exit $code
`
