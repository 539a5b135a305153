// Package gcemeta is the metadata server of one machine of Compute Engine: values below /computeMetadata/v1/ for callers that send
// Metadata-Flavor: Google, with ETags, and calls that wait until a value has changed. It decides nothing: package region does.
package gcemeta

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// The project's names.
const (
	Project       = "fake-project"
	ProjectNumber = "123456789012"
)

// Token is the token of every machine's service account, which has no use.
const Token = "ya29.fake-token"

const pathToken = "instance/service-accounts/default/token"

const (
	root   = "/computeMetadata/v1"
	flavor = "Metadata-Flavor"
)

// Look returns the present state of the machine.
type Look func() (i region.Instance, t region.Type)

// Endpoint answers the metadata requests of one machine.
type Endpoint struct {
	look Look
}

// New returns an Endpoint.
func New(look Look) *Endpoint { return &Endpoint{look: look} }

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "Metadata Server for VM")
	w.Header().Set(flavor, "Google")
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "":
		answer(w, "computeMetadata/\n", false)
	case r.Method != http.MethodGet:
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
	case r.Header.Get(flavor) != "Google":
		http.Error(w, "Missing required header: Metadata-Flavor: Google", http.StatusForbidden)
	case r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "requests that were passed on are refused", http.StatusForbidden)
	case path != root && !strings.HasPrefix(path, root+"/"):
		http.NotFound(w, r)
	default:
		e.serve(w, r, strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
	}
}

// lookEvery is how often a waiting call checks for a change, wall-clock.
const lookEvery = 50 * time.Millisecond

// serve answers at once, or when the value differs from the client's.
func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request, path string) {
	q := r.URL.Query()
	text, found, isJSON := e.value(path, q.Get("recursive") == "true")
	known := q.Get("last_etag")
	if known == "" {
		known = etag(text, found)
	}
	var late <-chan time.Time
	if seconds, err := strconv.Atoi(q.Get("timeout_sec")); err == nil && seconds > 0 {
		late = time.After(time.Duration(seconds) * time.Second)
	}
	if q.Get("wait_for_change") == "true" {
		text, found, isJSON = e.wait(r, path, known, late)
	}
	if r.Context().Err() != nil {
		return
	}
	w.Header().Set("ETag", etag(text, found))
	if !found {
		http.Error(w, "there is no such value", http.StatusNotFound)
		return
	}
	answer(w, text, isJSON)
}

func (e *Endpoint) wait(r *http.Request, path, known string, late <-chan time.Time) (text string, found, isJSON bool) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		text, found, isJSON = e.value(path, r.URL.Query().Get("recursive") == "true")
		if etag(text, found) != known {
			return text, found, isJSON
		}
		select {
		case <-r.Context().Done():
			return text, found, isJSON
		case <-late:
			return text, found, isJSON
		case <-ticker.C:
		}
	}
}

func etag(text string, found bool) string {
	h := fnv.New64a()
	fmt.Fprint(h, found, text)
	return fmt.Sprintf("%016x", h.Sum64())
}

func answer(w http.ResponseWriter, text string, isJSON bool) {
	w.Header().Set("Content-Type", "application/text")
	if isJSON {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Write([]byte(text)) // a client that has disconnected needs no answer
}

// value returns the value at a path, the names in a folder, or with recursive the whole subtree as JSON.
func (e *Endpoint) value(path string, recursive bool) (text string, found, isJSON bool) {
	if path == pathToken { // not listed in any folder
		return fmt.Sprintf(`{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, Token), true, true
	}
	values := e.values()
	if v, ok := values[path]; ok {
		return v, true, false
	}
	names := below(values, path)
	if len(names) == 0 {
		return "", false, false
	}
	if !recursive {
		return strings.Join(names, "\n") + "\n", true, false
	}
	tree, err := json.Marshal(treeOf(values, path))
	if err != nil {
		panic(err) // maps of strings can always be marshalled
	}
	return string(tree), true, true
}

func inFolder(path, folder string) (string, bool) {
	if folder == "" {
		return path, true
	}
	return strings.CutPrefix(path, folder+"/")
}

// below lists a folder; names of folders end in a slash.
func below(values map[string]string, folder string) []string {
	var names []string
	for path := range values {
		if rest, ok := inFolder(path, folder); ok {
			if name, _, deeper := strings.Cut(rest, "/"); deeper {
				rest = name + "/"
			}
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// treeOf nests a folder's contents. Names become camelCase, except those chosen by users.
func treeOf(values map[string]string, folder string) map[string]any {
	tree := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		rest, ok := inFolder(path, folder)
		if !ok {
			continue
		}
		at := tree
		parts := strings.Split(rest, "/")
		for n, part := range parts[:len(parts)-1] {
			name := camel(part)
			if n > 0 && parts[n-1] == "attributes" {
				name = part
			}
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		last := parts[len(parts)-1]
		if !strings.HasSuffix(strings.TrimSuffix(path, "/"+last), "attributes") {
			last = camel(last)
		}
		at[last] = values[path]
	}
	return tree
}

func camel(name string) string {
	words := strings.Split(name, "-")
	for n := 1; n < len(words); n++ {
		if words[n] != "" {
			words[n] = strings.ToUpper(words[n][:1]) + words[n][1:]
		}
	}
	return strings.Join(words, "")
}

// values returns all paths that exist now.
func (e *Endpoint) values() map[string]string {
	i, t := e.look()
	h := fnv.New64a()
	h.Write([]byte(i.ID))
	maintenance := "MIGRATE"
	if i.Pool.Class == market.Spot {
		maintenance = "TERMINATE"
	}
	event := "NONE"
	if !i.RebalanceAt.IsZero() {
		event = maintenance + "_ON_HOST_MAINTENANCE"
	}
	values := map[string]string{
		"project/project-id":                      Project,
		"project/numeric-project-id":              ProjectNumber,
		"instance/id":                             strconv.FormatUint(h.Sum64()>>1, 10),
		"instance/name":                           i.ID,
		"instance/hostname":                       i.ID + "." + i.Pool.Zone + ".c." + Project + ".internal",
		"instance/zone":                           "projects/" + ProjectNumber + "/zones/" + i.Pool.Zone,
		"instance/machine-type":                   "projects/" + ProjectNumber + "/machineTypes/" + i.Pool.Type,
		"instance/cpu-platform":                   "Fake " + t.Arch,
		"instance/image":                          i.Image,
		"instance/scheduling/automatic-restart":   "FALSE",
		"instance/scheduling/on-host-maintenance": maintenance,
		"instance/scheduling/preemptible":         upper(i.Pool.Class == market.Spot),
		"instance/maintenance-event":              event,
		"instance/preempted":                      upper(!i.NoticedAt.IsZero()),
	}
	for key, value := range i.Tags {
		values["instance/attributes/"+key] = value
	}
	return values
}

func upper(yes bool) string {
	if yes {
		return "TRUE"
	}
	return "FALSE"
}
