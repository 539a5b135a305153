package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
)

// This file implements the part of the Fault Injection Service (REST, JSON) that takes spot machines back: experiment templates with
// actions aws:ec2:send-spot-instance-interruptions.

const interruption = "aws:ec2:send-spot-instance-interruptions"

// faults holds templates and experiments. It is used under the Backend's lock.
type faults struct {
	templates   []faultTemplate
	experiments []experiment
}

type faultTemplate struct {
	ID          string                 `json:"id"`
	ARN         string                 `json:"arn"`
	Token       string                 `json:"clientToken,omitempty"`
	Description string                 `json:"description"`
	Stops       []stopCondition        `json:"stopConditions"`
	Targets     map[string]faultTarget `json:"targets"`
	Actions     map[string]faultAction `json:"actions"`
	Role        string                 `json:"roleArn"`
	Tags        map[string]string      `json:"tags"`
	Created     float64                `json:"creationTime"`
	Updated     float64                `json:"lastUpdateTime"`
}

type stopCondition struct {
	Source string `json:"source"`
	Value  string `json:"value,omitempty"`
}

type faultTarget struct {
	Type    string            `json:"resourceType"`
	ARNs    []string          `json:"resourceArns,omitempty"`
	Tags    map[string]string `json:"resourceTags,omitempty"`
	Filters []struct {
		Path   string   `json:"path"`
		Values []string `json:"values"`
	} `json:"filters,omitempty"`
	Mode string `json:"selectionMode"`
}

type faultAction struct {
	ID          string            `json:"actionId"`
	Description string            `json:"description,omitempty"`
	Parameters  map[string]string `json:"parameters,omitempty"`
	Targets     map[string]string `json:"targets,omitempty"`
	State       *faultState       `json:"state,omitempty"`
}

type faultState struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

type experiment struct {
	ID       string                 `json:"id"`
	ARN      string                 `json:"arn"`
	Template string                 `json:"experimentTemplateId"`
	State    faultState             `json:"state"`
	Targets  map[string]faultTarget `json:"targets"`
	Actions  map[string]faultAction `json:"actions"`
	Created  float64                `json:"creationTime"`
	Started  float64                `json:"startTime"`
	Ended    float64                `json:"endTime"`
	Tags     map[string]string      `json:"tags"`
}

// serveFaults answers one call.
func (h *Handler) serveFaults(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(w, r)
	var result any
	if err == nil {
		h.backend.Do(func(in *region.Region, now time.Time) {
			if in.Throttled(now) {
				err = region.Errorf("ThrottlingException", "Rate exceeded")
				return
			}
			result, err = h.faults.answer(in, now, r.Method, strings.Split(strings.Trim(r.URL.Path, "/"), "/"), body)
		})
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		refusal, ok := errors.AsType[*region.Error](err)
		if !ok {
			refusal = region.Errorf("ValidationException", "%v", err)
		}
		w.Header().Set("X-Amzn-Errortype", refusal.Code)
		status := http.StatusBadRequest
		switch refusal.Code {
		case "ResourceNotFoundException":
			status = http.StatusNotFound
		case "ThrottlingException":
			status = http.StatusTooManyRequests
		}
		w.WriteHeader(status)
		result = map[string]string{"message": refusal.Message}
	}
	_ = json.NewEncoder(w).Encode(result) // a client that has disconnected needs no answer
}

func (f *faults) answer(r *region.Region, now time.Time, method string, path []string, body []byte) (any, error) {
	what, id := path[0], strings.Join(path[1:], "/")
	switch {
	case what == "experimentTemplates" && method == http.MethodPost && id == "":
		return f.createTemplate(r, now, body)
	case what == "experimentTemplates" && method == http.MethodGet && id == "":
		return map[string]any{"experimentTemplates": append([]faultTemplate{}, f.templates...)}, nil
	case what == "experimentTemplates" && (method == http.MethodGet || method == http.MethodDelete):
		n := slices.IndexFunc(f.templates, func(t faultTemplate) bool { return t.ID == id })
		if n < 0 {
			return nil, region.Errorf("ResourceNotFoundException", "Experiment template not found: %s", id)
		}
		t := f.templates[n]
		if method == http.MethodDelete {
			f.templates = slices.Delete(f.templates, n, n+1)
		}
		return map[string]any{"experimentTemplate": t}, nil
	case what == "experiments" && method == http.MethodPost && id == "":
		return f.start(r, now, body)
	case what == "experiments" && method == http.MethodGet && id == "":
		return map[string]any{"experiments": append([]experiment{}, f.experiments...)}, nil
	case what == "experiments" && method == http.MethodGet:
		for _, e := range f.experiments {
			if e.ID == id {
				return map[string]any{"experiment": e}, nil
			}
		}
		return nil, region.Errorf("ResourceNotFoundException", "Experiment not found: %s", id)
	}
	return nil, region.Errorf("ValidationException", "%s /%s is not spoken here.", method, strings.Join(path, "/"))
}

func (f *faults) createTemplate(r *region.Region, now time.Time, body []byte) (any, error) {
	var t faultTemplate
	if err := strictly(body, &t); err != nil {
		return nil, err
	}
	for name, a := range t.Actions {
		target, ok := t.Targets[a.Targets["SpotInstances"]]
		switch {
		case a.ID != interruption:
			return nil, region.Errorf("ValidationException", "Action %s: %q is not spoken here; use %s.", name, a.ID, interruption)
		case !ok || target.Type != "aws:ec2:spot-instance":
			return nil, region.Errorf("ValidationException", "Action %s needs a target SpotInstances of type aws:ec2:spot-instance.", name)
		}
		if _, err := minutes(a.Parameters["durationBeforeInterruption"]); err != nil {
			return nil, err
		}
		if _, err := chosen(target.Mode, 0); err != nil {
			return nil, err
		}
		for _, filter := range target.Filters {
			if filter.Path != "State.Name" && filter.Path != "Placement.AvailabilityZone" {
				return nil, region.Errorf("ValidationException", "Filters by %q are not known here; use State.Name or Placement.AvailabilityZone.", filter.Path)
			}
		}
	}
	if len(t.Actions) == 0 {
		return nil, region.Errorf("ValidationException", "An experiment template needs an action.")
	}
	t.ID = "EXT" + strconv.Itoa(1000000+len(f.templates))
	t.ARN = "arn:aws:fis:" + r.Name() + ":" + Account + ":experiment-template/" + t.ID
	t.Created = float64(now.Unix())
	t.Updated = t.Created
	f.templates = append(f.templates, t)
	return map[string]any{"experimentTemplate": t}, nil
}

// minutes parses the durations that the service accepts: PT2M to PT15M.
func minutes(text string) (time.Duration, error) {
	digits, ok := strings.CutPrefix(text, "PT")
	d, err := time.ParseDuration(strings.ToLower(digits))
	if !ok || err != nil || d < 2*time.Minute || d > 15*time.Minute {
		return 0, region.Errorf("ValidationException", "durationBeforeInterruption %q is not from PT2M to PT15M.", text)
	}
	return d, nil
}

var selectionMode = pattern.Of(`^(?:ALL|(COUNT|PERCENT)\(([0-9]{1,6})\))$`)

// chosen returns the number of a target's machines.
func chosen(mode string, of int) (int, error) {
	m := selectionMode().FindStringSubmatch(mode)
	if m == nil {
		return 0, region.Errorf("ValidationException", "selectionMode %q is not ALL, COUNT(n) or PERCENT(n).", mode)
	}
	n, _ := strconv.Atoi("0" + m[2]) // the expression permits nothing else
	switch m[1] {
	case "COUNT":
		return min(n, of), nil
	case "PERCENT":
		return min(of, (of*n+99)/100), nil
	}
	return of, nil
}

// start starts an experiment: the interruptions are then in progress.
func (f *faults) start(r *region.Region, now time.Time, body []byte) (any, error) {
	var q struct {
		Token    string            `json:"clientToken"`
		Template string            `json:"experimentTemplateId"`
		Tags     map[string]string `json:"tags"`
		Options  json.RawMessage   `json:"experimentOptions"`
	}
	if err := strictly(body, &q); err != nil {
		return nil, err
	}
	n := slices.IndexFunc(f.templates, func(t faultTemplate) bool { return t.ID == q.Template })
	if n < 0 {
		return nil, region.Errorf("ResourceNotFoundException", "Experiment template not found: %s", q.Template)
	}
	t := f.templates[n]
	e := experiment{
		ID: "EXP" + strconv.Itoa(1000000+len(f.experiments)), Template: t.ID, Targets: t.Targets, Actions: maps.Clone(t.Actions), Tags: q.Tags,
		Created: float64(now.Unix()), Started: float64(now.Unix()), Ended: float64(now.Unix()),
		State: faultState{"completed", "Experiment completed."},
	}
	e.ARN = "arn:aws:fis:" + r.Name() + ":" + Account + ":experiment/" + e.ID
	for _, name := range slices.Sorted(maps.Keys(t.Actions)) {
		a := t.Actions[name]
		a.State = &faultState{"completed", "Action was completed."}
		count, err := f.interrupt(r, now, a, t.Targets[a.Targets["SpotInstances"]])
		if err == nil && count == 0 {
			err = errors.New("target resolution returned an empty set")
		}
		if err != nil {
			a.State = &faultState{"failed", err.Error()}
			e.State = faultState{"failed", err.Error()}
		}
		e.Actions[name] = a
	}
	f.experiments = append(f.experiments, e)
	return map[string]any{"experiment": e}, nil
}

func (f *faults) interrupt(r *region.Region, now time.Time, a faultAction, t faultTarget) (int, error) {
	var ids []string
	for _, i := range r.Instances(now) {
		if i.Pool.Class == market.Spot && i.State.Alive() && t.means(r, i) {
			ids = append(ids, i.ID)
		}
	}
	count, err := chosen(t.Mode, len(ids))
	if err != nil {
		return 0, err
	}
	after, err := minutes(a.Parameters["durationBeforeInterruption"])
	if err != nil {
		return 0, err
	}
	if count < len(ids) {
		ids = r.Sample(ids, count)
	}
	return count, r.Interrupt(now, ids, after)
}

// means reports whether an instance is among a target's.
func (t faultTarget) means(r *region.Region, i region.Instance) bool {
	if len(t.ARNs) > 0 && !slices.Contains(t.ARNs, fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", r.Name(), Account, i.ID)) {
		return false
	}
	for key, value := range t.Tags {
		if have, ok := i.Tags[key]; !ok || have != value {
			return false
		}
	}
	for _, f := range t.Filters {
		have := string(i.State)
		if f.Path == "Placement.AvailabilityZone" {
			have = i.Pool.Zone
		}
		if !slices.Contains(f.Values, have) {
			return false
		}
	}
	return true
}
