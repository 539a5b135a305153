package computeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/pattern"
)

// properties are a client's properties of a machine. Those kept as raw text have no effect here.
type properties struct {
	MachineType  string             `json:"machineType"`
	Labels       map[string]string  `json:"labels"`
	Metadata     metadata           `json:"metadata"`
	Scheduling   scheduling         `json:"scheduling"`
	Disks        []disk             `json:"disks"`
	Interfaces   []networkInterface `json:"networkInterfaces"`
	Description  json.RawMessage    `json:"description"`
	Accounts     []serviceAccount   `json:"serviceAccounts"`
	Shielded     json.RawMessage    `json:"shieldedInstanceConfig"`
	Tags         *networkTags       `json:"tags"`
	CanIPForward bool               `json:"canIpForward"`
	Platform     json.RawMessage    `json:"minCpuPlatform"`
	Confidential json.RawMessage    `json:"confidentialInstanceConfig"`
	Accelerators json.RawMessage    `json:"guestAccelerators"`
	Advanced     json.RawMessage    `json:"advancedMachineFeatures"`
	Reservation  json.RawMessage    `json:"reservationAffinity"`
}

type metadata struct {
	Kind        string         `json:"kind,omitempty"`
	Fingerprint string         `json:"fingerprint,omitempty"`
	Items       []metadataItem `json:"items"`
}

func (m metadata) check() error {
	keys := map[string]bool{}
	for _, item := range m.Items {
		if item.Key == "" || len(item.Key) > 128 || len(item.Value) > 256<<10 || keys[item.Key] {
			return invalid("resource.metadata.items", item.Key, "Keys are given once, and values have at most 262144 bytes.")
		}
		keys[item.Key] = true
	}
	return nil
}

type metadataItem struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type disk struct {
	Boot       bool            `json:"boot"`
	AutoDelete bool            `json:"autoDelete"`
	Params     *diskParams     `json:"initializeParams"`
	Source     string          `json:"source"`
	Key        json.RawMessage `json:"diskEncryptionKey"`
	Type       string          `json:"type"`
	Mode       string          `json:"mode"`
	Name       string          `json:"deviceName"`
}

type diskParams struct {
	Image    string            `json:"sourceImage"`
	SizeGiB  json.RawMessage   `json:"diskSizeGb"` // 64-bit numbers are strings
	Type     string            `json:"diskType"`
	Labels   map[string]string `json:"labels"`
	DiskName json.RawMessage   `json:"diskName"`
}

type length struct {
	Seconds json.RawMessage `json:"seconds"` // a string, like 64-bit numbers
	Nanos   int             `json:"nanos,omitempty"`
}

func (l *length) duration() time.Duration {
	if l == nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.Trim(string(l.Seconds), `"`), 10, 64)
	if err != nil || n > int64(maxRun/time.Second) {
		return -1
	}
	return time.Duration(n) * time.Second
}

type scheduling struct {
	Model             string  `json:"provisioningModel,omitempty"`
	TerminationAction string  `json:"instanceTerminationAction,omitempty"`
	OnMaintenance     string  `json:"onHostMaintenance,omitempty"`
	Restart           *bool   `json:"automaticRestart,omitempty"`
	Preemptible       bool    `json:"preemptible,omitempty"`
	MaxRun            *length `json:"maxRunDuration,omitempty"`
	Notice            *length `json:"preemptionNoticeDuration,omitempty"`
}

func (s scheduling) spot() bool { return s.Model == "SPOT" || s.Preemptible }

const (
	minRun          = 30 * time.Second
	maxRun          = 120 * 24 * time.Hour
	preemptibleLife = 24 * time.Hour
)

func (s scheduling) check() error {
	const field = "resource.scheduling"
	run := s.MaxRun.duration()
	switch {
	case !slices.Contains([]string{"", "STANDARD", "SPOT"}, s.Model):
		return invalid(field+".provisioningModel", s.Model, "Not supported here.")
	case s.spot() && s.OnMaintenance != "" && s.OnMaintenance != "TERMINATE":
		return invalid(field+".onHostMaintenance", s.OnMaintenance, "Scheduling must have onHostMaintenance set to TERMINATE when preemptible or spot.")
	case s.spot() && s.Restart != nil && *s.Restart:
		return invalid(field+".automaticRestart", "true", "Scheduling must have automaticRestart be false when preemptible or spot.")
	case !slices.Contains([]string{"", "STOP", "DELETE"}, s.TerminationAction):
		return invalid(field+".instanceTerminationAction", s.TerminationAction, "Must be STOP or DELETE.")
	case s.TerminationAction != "" && s.Model != "SPOT" && s.MaxRun == nil:
		return invalid(field+".instanceTerminationAction", s.TerminationAction, "Goes with provisioningModel SPOT or a time limit only.")
	case s.MaxRun != nil && (run < minRun || run > maxRun):
		return invalid(field+".maxRunDuration", string(s.MaxRun.Seconds), "Must be from 30 seconds to 120 days.")
	case s.MaxRun != nil && s.TerminationAction == "":
		return invalid(field+".instanceTerminationAction", "", "A time limit needs it.")
	case s.Preemptible && s.Model != "SPOT" && s.MaxRun != nil:
		return invalid(field+".maxRunDuration", string(s.MaxRun.Seconds), "Not with preemptible instances.")
	case s.Notice != nil && (s.Model != "SPOT" || s.Notice.duration() < 0):
		return invalid(field+".preemptionNoticeDuration", string(s.Notice.Seconds), "Goes with provisioningModel SPOT only.")
	}
	return nil
}

// instanceBody is the body of an insert.
type instanceBody struct {
	Name      string `json:"name"`
	Protected bool   `json:"deletionProtection"`
	properties
}

// bulkBody is the body of a bulkInsert.
type bulkBody struct {
	Count      json.RawMessage `json:"count"`
	MinCount   json.RawMessage `json:"minCount"`
	Pattern    string          `json:"namePattern"`
	Properties properties      `json:"instanceProperties"`
	Each       map[string]struct {
		Name     string          `json:"name"`
		Hostname json.RawMessage `json:"hostname"`
	} `json:"perInstanceProperties"`
}

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refusalf(http.StatusBadRequest, "badRequest", "Invalid JSON payload received: %v", err)
	}
	return nil
}

func insert(c *call) (any, error) {
	var body instanceBody
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	before, kind, ok := strings.Cut(body.MachineType, "zones/"+c.zone()+"/machineTypes/")
	if !ok || before != "" && !strings.HasSuffix(before, "/") {
		return nil, invalid("resource.machineType", body.MachineType, "The URL is malformed.")
	}
	if body.Protected && body.Scheduling.spot() {
		return nil, invalid("resource.deletionProtection", "true", "Not supported here with Spot machines.")
	}
	return c.launch("insert", kind, body.properties, []string{body.Name}, 1, body.Protected)
}

func bulkInsert(c *call) (any, error) {
	var body bulkBody
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	count, err := wholeNumber("resource.count", body.Count)
	if err != nil {
		return nil, err
	}
	least := count
	if len(body.MinCount) > 0 {
		if least, err = wholeNumber("resource.minCount", body.MinCount); err != nil {
			return nil, err
		}
	}
	names := slices.Sorted(maps.Keys(body.Each))
	switch {
	case count < 1 || count > 1000 || least < 1 || least > count:
		return nil, invalid("resource.count", fmt.Sprint(count), "Must be from minCount to 1000.")
	case body.Pattern != "" && len(names) == 0:
		if names, err = numbered(body.Pattern, count); err != nil {
			return nil, err
		}
	case len(names) != count:
		return nil, invalid("resource.perInstanceProperties", plural(len(names), "name"), fmt.Sprintf("Must be as many as count, %d.", count))
	}
	if strings.Contains(body.Properties.MachineType, "/") {
		return nil, invalid("resource.instanceProperties.machineType", body.Properties.MachineType, "Must be a name, not a URL.")
	}
	return c.launch("bulkInsert", body.Properties.MachineType, body.Properties, names, least, false)
}

var placeholder = pattern.Of(`^[^#]*(#+)[^#]*$`)

// numbered returns the names of a pattern such as m-##, from 1 on.
func numbered(text string, count int) (names []string, err error) {
	mark := placeholder().FindStringSubmatch(text)
	if mark == nil || len(strconv.Itoa(count)) > len(mark[1]) {
		return nil, invalid("resource.namePattern", text, "Must have one sequence of #, with a place for each digit.")
	}
	for n := range count {
		names = append(names, strings.Replace(text, mark[1], fmt.Sprintf("%0*d", len(mark[1]), n+1), 1))
	}
	return names, nil
}

func wholeNumber(field string, text json.RawMessage) (int, error) {
	n, err := strconv.Atoi(strings.Trim(string(text), `"`))
	if err != nil {
		return 0, invalid(field, string(text), "Must be a whole number.")
	}
	return n, nil
}

var (
	nameRule  = pattern.Of(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelKey  = pattern.Of(`^[a-z][a-z0-9_-]{0,62}$`)
	labelRule = pattern.Of(`^[a-z0-9_-]{0,63}$`)
	requestID = pattern.Of(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if !labelKey().MatchString(key) || !labelRule().MatchString(value) {
			return invalid("resource.labels", key+"="+value, "Labels have at most 63 lower-case letters, digits, dashes and underscores.")
		}
	}
	return nil
}

// check checks what every machine needs.
func (c *call) check(kind string, p properties, names []string) error {
	for _, name := range names {
		if !nameRule().MatchString(name) {
			return invalid("resource.name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
		}
	}
	if err := checkLabels(p.Labels); err != nil {
		return err
	}
	if err := p.Metadata.check(); err != nil {
		return err
	}
	if len(p.Labels) > 64 || len(p.Disks) == 0 || !p.Disks[0].Boot || p.Disks[0].Params == nil || p.Disks[0].Params.Image == "" {
		return invalid("resource.disks", plural(len(p.Disks), "disk"), "The first must be a boot disk with a source image.")
	}
	if len(p.Interfaces) == 0 {
		return invalid("resource.networkInterfaces", "", "At least one network interface is required.")
	}
	types := c.region.Types()
	at := slices.IndexFunc(types, func(t region.Type) bool { return t.Name == kind })
	if at < 0 {
		return refusalf(http.StatusNotFound, "notFound", "The resource 'projects/%s/zones/%s/machineTypes/%s' was not found", c.project(), c.zone(), kind)
	}
	if types[at].GPU.Count > 0 && !p.Scheduling.spot() && p.Scheduling.OnMaintenance != "TERMINATE" {
		return invalid("resource.scheduling.onHostMaintenance", p.Scheduling.OnMaintenance, "Instances with guest accelerators do not support live migration.")
	}
	return p.Scheduling.check()
}

// launch executes both ways to create machines.
func (c *call) launch(kind, machineType string, p properties, names []string, least int, protected bool) (any, error) {
	request := c.URL.Query().Get("requestId")
	if request != "" && !requestID().MatchString(request) {
		return nil, invalid("requestId", request, "Must be a UUID.")
	}
	if before := c.requests[request]; before != nil && request != "" {
		return c.view(before), nil
	}
	if err := c.check(machineType, p, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, used := c.region.Instance(c.now, name); used {
			return nil, refusalf(http.StatusConflict, "alreadyExists", "The resource 'projects/%s/zones/%s/instances/%s' already exists",
				c.project(), c.zone(), name)
		}
	}
	made, err := c.region.Launch(c.now, region.LaunchRequest{Type: machineType, Zone: c.zone(), Image: p.Disks[0].Params.Image,
		Spot: p.Scheduling.spot(), Min: least, Max: len(names), Tags: attributes(p.Metadata), Names: names, Terms: c.terms(p), Shown: region.Shown{Protected: protected}})
	for _, i := range made.Instances {
		c.given[i.ID] = p
	}
	var failure *operationError
	if err != nil {
		if failure, err = asFailure(err); err != nil {
			return nil, err
		}
	}
	if failure == nil && len(made.Instances) < len(names) {
		failure = &operationError{"ZONE_RESOURCE_POOL_EXHAUSTED", fmt.Sprintf("%d of %d instances were created.", len(made.Instances), len(names)),
			http.StatusServiceUnavailable}
	}
	one := ""
	if kind == "insert" {
		one = names[0]
	}
	o := c.begin(kind, request, one, c.now.Add(c.lengths.Operation), failure)
	if kind == "bulkInsert" {
		o.group = number(o.name)
		for _, i := range made.Instances {
			c.begin("insert", "", i.ID, c.now.Add(c.lengths.Operation), nil).group = o.group
		}
	}
	return c.view(o), nil
}

func (c *call) terms(p properties) region.Terms {
	s := p.Scheduling
	t := region.Terms{Labels: p.Labels, Preemptible: s.Preemptible, Delete: s.TerminationAction == "DELETE", MaxRun: s.MaxRun.duration(),
		ExtraNotice: c.lengths.Market(s.Notice.duration())}
	if s.Preemptible && s.Model != "SPOT" {
		t.MaxLife = preemptibleLife
	}
	return t
}

func attributes(m metadata) map[string]string {
	all := map[string]string{}
	for _, item := range m.Items {
		all[item.Key] = item.Value
	}
	return all
}
