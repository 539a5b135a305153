package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// words are a request's digests, which only need the right form.
type words struct {
	all        map[string]string // labels
	json       string            // the labels as sent
	token, job string
	digests    string // of cluster and token, in names
}

var (
	labelText = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	nameText  = regexp.MustCompile(`^blue-([a-z2-7]{6}-[a-z2-7]{10})-[0-9]{3}$`)
	uuidText  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

func checkUUID(t *testing.T, id string) {
	t.Helper()
	if !uuidText.MatchString(id) {
		t.Errorf("request id %q is no UUID of version 8", id)
	}
}

func parseUnix(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), err
}

// fieldOf returns a field of a JSON object as text.
func fieldOf(t *testing.T, body, name string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	return string(fields[name])
}

// firstName returns that of the first machine in a body.
func firstName(t *testing.T, body string) string {
	t.Helper()
	var sent struct {
		Name string         `json:"name"`
		Each map[string]any `json:"perInstanceProperties"`
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Name != "" {
		return sent.Name
	}
	var names []string
	for name := range sent.Each {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[0]
}

// sentWords reads the digests from a body, and the note in its metadata, which must describe the request.
func sentWords(t *testing.T, body string) (words, string) {
	t.Helper()
	type resource struct {
		Labels   map[string]string `json:"labels"`
		Metadata struct {
			Items []struct{ Key, Value string }
		} `json:"metadata"`
	}
	var sent struct {
		resource
		Properties resource `json:"instanceProperties"`
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	r := sent.resource
	if len(r.Labels) == 0 {
		r = sent.Properties
	}
	for key, value := range r.Labels {
		if !labelText.MatchString(key) || !labelText.MatchString(value) {
			t.Errorf("label %s=%s is against the rules for labels", key, value)
		}
	}
	name := nameText.FindStringSubmatch(firstName(t, body))
	if name == nil {
		t.Fatalf("name %q", firstName(t, body))
	}
	text, err := json.Marshal(r.Labels)
	if err != nil {
		t.Fatal(err)
	}
	_, job, _ := strings.Cut(r.Labels["job"], "_")
	w := words{all: r.Labels, json: string(text), token: r.Labels["tierml-token"], job: job, digests: name[1]}
	if !strings.HasPrefix(w.token, "job-1-2_") {
		t.Errorf("label of the token %q", w.token)
	}
	var note struct {
		Token string            `json:"token"`
		Tags  map[string]string `json:"tags"`
	}
	if err := json.Unmarshal([]byte(r.Metadata.Items[0].Value), &note); err != nil || note.Token != "job-1/2" {
		t.Errorf("note %q: %v", r.Metadata.Items[0].Value, err)
	}
	return w, r.Metadata.Items[0].Value
}
