package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tierml/tierml/internal/cloudname"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// labelPrefix begins TierML's labels and annotations.
const labelPrefix = "tierml.dev/"

// gateLaunch holds a pod back until its launch is complete: see Launch.
const gateLaunch = labelPrefix + "launch"

// Labels by which objects are found. Values that are not valid as labels are replaced by digests.
const (
	labelCluster = "tierml.dev/cluster"
	labelRun     = "tierml.dev/run"
	labelToken   = "tierml.dev/token" //nolint:gosec // a digest of it
	labelClass   = "tierml.dev/class"
	labelPart    = "app.kubernetes.io/managed-by"
)

// Annotations.
const (
	noteRequest    = "tierml.dev/request"    // the request: see note
	noteLaunched   = "tierml.dev/launched"   // of a Secret: how many pods its launch made, once complete
	noteExpires    = "tierml.dev/expires"    // when a pod's lease expires, RFC 3339: see Renew
	noteGeneration = "tierml.dev/generation" // the run's controller that wants it
	noteRun        = "tierml.dev/run-name"
	noteOwner      = "tierml.dev/owner"
	noteShape      = "tierml.dev/shape" // of a pod that Kueue admits in a group
)

// readable is how many characters of a run's name pods' names keep; they are host names of at most 63 characters.
const readable = 32

// ownerName returns the name of a run's ConfigMap.
func ownerName(cluster, run string) string {
	return cloudname.Slug(run, readable) + "-" + cloudname.Digest(6, cluster, run)
}

// launchName returns the name of a launch's Secret, which is also the prefix of its pods' names.
func launchName(cluster, run, token string) string {
	return cloudname.Slug(run, readable) + "-" + cloudname.Digest(12, cluster, run, token)
}

func podName(launch string, number int) string { return fmt.Sprintf("%s-%d", launch, number) }

var labelText = pattern.Of(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// labelValue returns a text unchanged if it is a valid label value; otherwise a similar value that no other text
// yields.
func labelValue(text string) string {
	if labelText().MatchString(text) {
		return text
	}
	return cloudname.Slug(text, readable) + "-" + cloudname.Digest(10, text)
}

// note is what a Secret and its pods keep of a request, so that List can return it to a later process.
type note struct {
	Token string            `json:"token"`
	Pool  string            `json:"pool"`
	Count int               `json:"count"`
	Tags  map[string]string `json:"tags,omitempty"`
	Mark  string            `json:"mark"` // digest of everything that a repeated request must have in common
}

func noteOf(r provisioner.Request) note {
	parts := []string{r.Pool.String(), fmt.Sprint(r.Count), r.UserData}
	for _, name := range r.TagNames() {
		parts = append(parts, name, r.Tags[name])
	}
	return note{Token: r.Token, Pool: r.Pool.String(), Count: r.Count, Tags: r.Tags, Mark: cloudname.Digest(16, parts...)}
}

func (n note) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return string(text)
}

// readNote returns an empty note if there is none or it was edited.
func readNote(text string) (n note, pool market.Pool) {
	if json.Unmarshal([]byte(text), &n) != nil {
		return note{}, market.Pool{}
	}
	pool, err := market.ParsePool(n.Pool)
	if err != nil {
		return note{}, market.Pool{}
	}
	return n, pool
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
