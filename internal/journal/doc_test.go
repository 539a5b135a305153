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
	kindRow   = regexp.MustCompile("(?m)^\\| `([a-z-]+)`( \\(durable\\))? \\| ([^|]*)\\| ([^|]*)\\| [^|]+ \\|$")
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")
	quoted    = regexp.MustCompile("`([a-z_]+)`")
)

// docs/journal.md describes exactly the existing kinds and fields; its examples and those of testdata, at least one of each kind, are lines
// of a journal.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(page)
	_, table, _ := strings.Cut(doc, "\n## Kinds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var documented, want []Kind
	for _, m := range kindRow.FindAllStringSubmatch(table, -1) {
		documented = append(documented, Kind(m[1]))
		checkRow(t, Kind(m[1]), m[2] != "", names(m[3]), names(m[4]))
	}
	for _, f := range kinds {
		want = append(want, f.Kind)
	}
	if !slices.Equal(documented, want) {
		t.Errorf("documented kinds\n%v\nwant\n%v", documented, want)
	}
	for _, block := range jsonBlock.FindAllStringSubmatch(doc, -1) {
		checkExamples(t, block[1])
	}
	examples, err := os.ReadFile("testdata/examples.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	shown := checkExamples(t, string(examples))
	for _, kind := range want {
		if !shown[kind] {
			t.Errorf("%s: no example", kind)
		}
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Entry](), reflect.TypeFor[StartDetails](), reflect.TypeFor[PlanDetails](),
		reflect.TypeFor[MachineType](), reflect.TypeFor[Fleet](), reflect.TypeFor[Want](), reflect.TypeFor[Thresholds](),
		reflect.TypeFor[PlanPool](), reflect.TypeFor[Estimate](), reflect.TypeFor[OnDemandPlan](), reflect.TypeFor[Prediction](), reflect.TypeFor[PlanAuto](), reflect.TypeFor[PlanCandidate](),
		reflect.TypeFor[IntentDetails](), reflect.TypeFor[ScaleDetails](), reflect.TypeFor[StageDetails](), reflect.TypeFor[ProfileDetails](),
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

func checkRow(t *testing.T, kind Kind, durable bool, required, optional []string) {
	i := slices.IndexFunc(kinds, func(f Fields) bool { return f.Kind == kind })
	if i < 0 {
		t.Errorf("kind %q is documented and does not exist", kind)
		return
	}
	if durable != kinds[i].Durable {
		t.Errorf("%s: documented as durable: %v, want %v", kind, durable, kinds[i].Durable)
	}
	if !slices.Equal(required, kinds[i].Required) || !slices.Equal(optional, kinds[i].Optional) {
		t.Errorf("%s: fields %v optional %v, want %v and %v", kind, required, optional, kinds[i].Required, kinds[i].Optional)
	}
}

// checkExamples returns the kinds of the lines.
func checkExamples(t *testing.T, lines string) map[Kind]bool {
	shown := map[Kind]bool{}
	for e, err := range NewReader(strings.NewReader(lines)).All() {
		if err != nil {
			t.Errorf("example: %v", err)
			break
		}
		shown[e.Kind] = true
		if err := e.Validate(); err != nil {
			t.Errorf("%s: example: %v", e.Kind, err)
		}
		checkDetails(t, e)
	}
	return shown
}

// checkDetails checks that every field in an example's details is known.
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
