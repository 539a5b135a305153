package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/cloudname"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner"
)

// We name machines cluster-CCCCCC-TTTTTTTTTT-NNN: a readable prefix, then digests of the cluster's name and of the
// token, and a number. The same request always yields the same names, and Compute Engine refuses duplicates: a launch
// repeated after hours, when request ids are forgotten, cannot buy again.

// readable is how many characters of a cluster's name machines' names keep; they have at most 63.
const readable = 24

// clusterPrefix returns the prefix of the names of all machines of this cluster only.
func clusterPrefix(cluster string) string {
	return cloudname.Slug(cluster, readable) + "-" + cloudname.Digest(6, cluster) + "-"
}

// tokenPrefix returns the prefix of the names of a launch's machines.
func tokenPrefix(cluster, token string) string {
	return clusterPrefix(cluster) + cloudname.Digest(10, cluster, token) + "-"
}

// machineNames returns the names of a request's machines.
func machineNames(cluster string, r provisioner.Request) []string {
	names := make([]string, r.Count)
	for n := range names {
		names[n] = fmt.Sprintf("%s%03d", tokenPrefix(cluster, r.Token), n)
	}
	return names
}

// requestID returns the UUID by which Compute Engine recognises a repeated call. A retry after a permanent failure is
// a new attempt: the same id would only return the old failure.
func requestID(cluster, token string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", cluster, token, attempt))
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80 // version 8: custom, RFC 9562
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// Labels that every machine carries. They are for filters and for people: values have at most 63 lower-case letters,
// digits, dashes and underscores, so longer texts are abbreviated (labelValue). The request itself, unabridged, is in
// the machine's metadata (metaNote).
const (
	labelCluster    = "tierml-cluster"
	labelToken      = "tierml-token"
	labelOwner      = "tierml-owner"
	labelJob        = "tierml-job"
	labelGeneration = "tierml-generation"
	labelExpiry     = "tierml-expiry" // unix time when the lease expires: see Renew
)

// Keys of a machine's metadata.
const (
	metaNote     = "tierml-request"
	metaUserData = "tierml-user-data"
	metaNotice   = "tierml-notice" // the requested warning, wall-clock
	metaStartup  = "startup-script"
)

const longestLabel = 63

var (
	labelText   = pattern.Of(`^[a-z0-9_-]{0,63}$`)
	notInLabels = pattern.Of(`[^a-z0-9_-]+`)
)

// labelValue returns a text unchanged if it is a valid label value; otherwise a similar value that no other text
// yields.
func labelValue(text string) string {
	if labelText().MatchString(text) {
		return text
	}
	mark := "_" + cloudname.Digest(8, text)
	like := notInLabels().ReplaceAllString(strings.ToLower(text), "-")
	return like[:min(len(like), longestLabel-len(mark))] + mark
}

// labelKey is labelValue for keys, which must begin with a letter.
func labelKey(text string) string {
	key := labelValue(text)
	if key == "" || key[0] < 'a' || key[0] > 'z' {
		key = "t-" + key
	}
	return key[:min(len(key), longestLabel)]
}

// labels returns the labels of a request's machines: the cluster's own, and the request's tags.
func (c *Cloud) labels(r provisioner.Request) map[string]string {
	labels := maps.Clone(c.config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, name := range r.TagNames() {
		labels[labelKey(name)] = labelValue(r.Tags[name])
	}
	labels[labelCluster] = labelValue(c.config.Cluster)
	labels[labelToken] = labelValue(r.Token)
	for label, value := range map[string]string{labelOwner: c.config.Owner, labelJob: c.config.Job, labelGeneration: r.Generation} {
		if value != "" {
			labels[label] = labelValue(value)
		}
	}
	if leash := c.config.leash(); !r.Expires.IsZero() {
		labels[labelExpiry] = expiry(r.Expires)
	} else if leash > 0 {
		labels[labelExpiry] = expiry(c.config.Clock.Now().Add(leash))
	}
	return labels
}

func expiry(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// note is what a machine's metadata keep of its request, so that List can return it, even to a later process.
type note struct {
	Token string            `json:"token"`
	Tags  map[string]string `json:"tags,omitempty"`
	Mark  string            `json:"mark"` // digest of everything that a repeated request must have in common
}

func noteOf(r provisioner.Request) note {
	parts := []string{r.Pool.String(), fmt.Sprint(r.Count), r.UserData}
	for _, name := range r.TagNames() {
		parts = append(parts, name, r.Tags[name])
	}
	return note{Token: r.Token, Tags: r.Tags, Mark: cloudname.Digest(16, parts...)}
}

func (n note) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return string(text)
}

// readNote returns an empty note if there is none or it was changed by hand.
func readNote(text string) (n note) {
	if json.Unmarshal([]byte(text), &n) != nil {
		return note{}
	}
	return n
}

// baseName returns the last part of a resource's address, ".../zones/us-central1-a".
func baseName(address string) string { return address[strings.LastIndexByte(address, '/')+1:] }

// sortedKeys returns a map's keys.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
