package wrap_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/provisioner/wrap"
)

func TestParsePlan(t *testing.T) {
	p, err := wrap.ParsePlan(" launch#3=no-capacity;terminate#1-4=throttled ; launch#6=after")
	if err != nil {
		t.Fatal(err)
	}
	want := wrap.Plan{
		{Op: wrap.OpLaunch, From: 3, To: 3, Fault: "no-capacity"},
		{Op: wrap.OpTerminate, From: 1, To: 4, Fault: "throttled"},
		{Op: wrap.OpLaunch, From: 6, To: 6, Fault: wrap.After},
	}
	if !slices.Equal(p, want) {
		t.Errorf("got %v, want %v", p, want)
	}
	if text := p.String(); text != "launch#3=no-capacity; terminate#1-4=throttled; launch#6=after" {
		t.Errorf("prints as %q", text)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"launch":               "want CALL#NUMBER=FAULT",
		"launch=after":         "want CALL#NUMBER=FAULT",
		"start#1=after":        `call "start"`,
		"launch#1=explode":     "after, denied, hang",
		"launch#0=after":       "from 1",
		"launch#3-2=after":     "range",
		"launch#x=after":       "number",
		"launch#1=after; ":     "want CALL#NUMBER=FAULT",
		"launch#1=after,after": "fault",
	} {
		if p, err := wrap.ParsePlan(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, %v; want an error with %q", text, p, err, want)
		}
	}
}

// What parses prints as something that parses to the same.
func FuzzParsePlan(f *testing.F) {
	for _, seed := range []string{"", "launch#3=no-capacity; terminate#1-4=throttled", "notify#1=hang", "list#+1=after", "launch#01=after"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := wrap.ParsePlan(text)
		if err != nil {
			return
		}
		again, err := wrap.ParsePlan(p.String())
		if err != nil || !slices.Equal(p, again) {
			t.Errorf("%q parses to %v, prints as %q, and that parses to %v, %v", text, p, p.String(), again, err)
		}
	})
}
