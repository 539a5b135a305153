package journal

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	kindSection = regexp.MustCompile("(?s)### `([a-z-]+)`( \\(durable\\))?\n(.*?)(?:\n### |\\z)")
	fieldsLine  = regexp.MustCompile(`(?m)^Fields: (none|[^.]+)\.(?: Optional: ([^.]+)\.)?$`)
	jsonBlock   = regexp.MustCompile("(?s)```json\n(.*?)```")
	quoted      = regexp.MustCompile("`([a-z_]+)`")
)

// docs/journal.md describes exactly the kinds and fields that there are, and its examples are lines of a
// journal.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(page)
	var documented []Kind
	for rest := doc; ; {
		m := kindSection.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		section := rest[m[6]:m[7]]
		kind := Kind(rest[m[2]:m[3]])
		documented = append(documented, kind)
		checkSection(t, kind, section, m[4] >= 0)
		rest = rest[m[7]:]
	}
	var want []Kind
	for _, f := range kinds {
		want = append(want, f.Kind)
	}
	if !slices.Equal(documented, want) {
		t.Errorf("documented kinds\n%v\nwant\n%v", documented, want)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Entry](), reflect.TypeFor[StartDetails](), reflect.TypeFor[PlanDetails](),
		reflect.TypeFor[MachineType](), reflect.TypeFor[Fleet](), reflect.TypeFor[Want](), reflect.TypeFor[Thresholds](),
		reflect.TypeFor[PlanPool](), reflect.TypeFor[Estimate](), reflect.TypeFor[OnDemandPlan](), reflect.TypeFor[Prediction](), reflect.TypeFor[PlanAuto](), reflect.TypeFor[PlanCandidate](),
		reflect.TypeFor[IntentDetails](), reflect.TypeFor[ScaleDetails](), reflect.TypeFor[StageDetails](),
		reflect.TypeFor[TuneDetails](), reflect.TypeFor[TuneSample](), reflect.TypeFor[TuneClock](),
		reflect.TypeFor[ProgramDetails](), reflect.TypeFor[PlanProgram](), reflect.TypeFor[ProgramStartDetails](),
	} {
		for _, name := range jsonNames(typ) {
			if !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("%s.%s is not documented", typ.Name(), name)
			}
		}
	}
}

func checkSection(t *testing.T, kind Kind, section string, durable bool) {
	i := slices.IndexFunc(kinds, func(f Fields) bool { return f.Kind == kind })
	if i < 0 {
		t.Errorf("kind %q is documented and does not exist", kind)
		return
	}
	if durable != kinds[i].Durable {
		t.Errorf("%s: documented as durable: %v, want %v", kind, durable, kinds[i].Durable)
	}
	if m := fieldsLine.FindStringSubmatch(section); m == nil {
		t.Errorf("%s: no line with its fields", kind)
	} else if !slices.Equal(names(m[1]), kinds[i].Required) || !slices.Equal(names(m[2]), kinds[i].Optional) {
		t.Errorf("%s: fields %v optional %v, want %v and %v", kind, names(m[1]), names(m[2]), kinds[i].Required, kinds[i].Optional)
	}
	examples := 0
	for _, block := range jsonBlock.FindAllStringSubmatch(section, -1) {
		for e, err := range NewReader(strings.NewReader(block[1])).All() {
			if err != nil {
				t.Errorf("%s: example: %v", kind, err)
				break
			}
			if examples++; e.Kind != kind {
				t.Errorf("%s: example of kind %q", kind, e.Kind)
			}
			if err := e.Validate(); err != nil {
				t.Errorf("%s: example: %v", kind, err)
			}
			checkDetails(t, e)
		}
	}
	if examples == 0 {
		t.Errorf("%s: no example", kind)
	}
}

// checkDetails wants the details of an example to be known to the last field.
func checkDetails(t *testing.T, e Entry) {
	switch e.Kind {
	case Start:
		strict(t, e, new(StartDetails))
		if _, err := e.StartDetails(); err != nil {
			t.Error(err)
		}
	case Intent:
		strict(t, e, new(IntentDetails))
	case Plan:
		strict(t, e, new(PlanDetails))
		if _, err := e.PlanDetails(); err != nil {
			t.Error(err)
		}
	}
}

func strict(t *testing.T, e Entry, into any) {
	d := json.NewDecoder(strings.NewReader(string(e.Details)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s: details: %v", e.Kind, err)
	}
}

func names(s string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

func jsonNames(typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

func TestValidate(t *testing.T) {
	launched := at(0)
	ok := Entry{T: at(1), Kind: Launch, Token: "a", Instance: "i-1", Tier: "transient", Pool: "p", Launched: &launched}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Entry){
		"unknown kind":            func(e *Entry) { e.Kind = "lunch" },
		"has no time":             func(e *Entry) { e.T = time.Time{} },
		"lacks instance":          func(e *Entry) { e.Instance = "" },
		"lacks launched":          func(e *Entry) { e.Launched = nil },
		"does not carry outcome":  func(e *Entry) { e.Outcome = "finished" },
		"does not carry deadline": func(e *Entry) { e.Deadline = &launched },
	} {
		bad := ok
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestDetailsOfTheWrongLine(t *testing.T) {
	if _, err := (Entry{Kind: Cut}).StartDetails(); err == nil {
		t.Error("a cut has no start details")
	}
	if _, err := (Entry{Kind: Plan}).PlanDetails(); err == nil {
		t.Error("a plan without details must be an error")
	}
	want := PlanDetails{Policy: "p", Cost: Estimate{1, 2, 3}}
	b, err := Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Entry{Kind: Plan, Details: b}.PlanDetails()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
