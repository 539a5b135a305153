package grants

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/sched"
)

// A job waits for others to end, predicted from their measured pace, and for nothing unknown. The forecast is what is decided once the
// others have ended.
func TestForesee(t *testing.T) {
	slots := Slots{Hosts: []sched.Host{{ID: "slots", Capacity: sched.Resources{8}}}, There: 1}
	claim := func(id string, least, most int, clocks, done int64, speed float64) Claim {
		j := Claim{ID: id, Asked: Asked{Least: least, Most: most, Unit: sched.Resources{1}, Clocks: clocks}, Told: -1}
		if speed > 0 {
			j.Began, j.Held, j.Told, j.Done = true, most, most, done
			j.Pace = sched.Pace{{Workers: most, Speed: speed}}
		}
		return j
	}
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		name   string
		policy string
		of     Claim
		most   int
		pace   float64 // of a
		want   Outlook
	}{
		{"behind two", "fifo", claim("new", 8, 8, 100, 0, 0), 9, 2, Outlook{Starts: true, Workers: 8, Wait: 500, Ends: []string{"a", "b"}}},
		{"room after one", "fifo", claim("new", 4, 6, 100, 0, 0), 9, 2, Outlook{Starts: true, Workers: 6, Wait: 400, Ends: []string{"a"}}},
		{"shared at once", "drf", claim("new", 1, 8, 100, 0, 0), 9, 2, Outlook{Starts: true, Workers: 3}},
		{"one run too many", "drf", claim("new", 1, 8, 100, 0, 0), 2, 2, Outlook{Starts: true, Workers: 6, Wait: 400, Ends: []string{"a"}}},
		{"a's pace is unknown, and b's room too small", "fifo", claim("new", 8, 8, 100, 0, 0), 9, 0, Outlook{Ends: []string{"b"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := sched.ByName(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			a, b := claim("a", 1, 6, 1000, 200, 2), claim("b", 1, 2, 1000, 500, 1)
			if c.pace == 0 {
				a.Pace = nil
			}
			last := Decision{Policy: p.Name(), Grants: []Grant{{Job: "a", Workers: 6}, {Job: "b", Workers: 2}}}
			jobs := []Claim{a, b}
			got := Foresee(p, now, slots, jobs, c.most, Others{}, last, c.of)
			if got.Starts != c.want.Starts || got.Workers != c.want.Workers || got.Wait != c.want.Wait && c.want.Starts || !slices.Equal(got.Ends, c.want.Ends) || got.Why == "" {
				t.Errorf("foreseen: %+v, want %+v", got, c.want)
			}
			if jobs[0].Done != 200 || jobs[1].Done != 500 {
				t.Errorf("the jobs themselves changed: %+v", jobs)
			}
		})
	}
}

// The best outlook has the earliest start, and then the most workers.
func TestOutlooksAreOrdered(t *testing.T) {
	want := []Outlook{{Starts: true, Workers: 4}, {Starts: true, Workers: 2}, {Starts: true, Workers: 8, Wait: 1}, {Policy: "a"}, {Policy: "b"}}
	got := []Outlook{want[4], want[2], want[3], want[1], want[0]}
	slices.SortFunc(got, Outlook.Sooner)
	if !slices.EqualFunc(got, want, func(a, b Outlook) bool { return a.Sooner(b) == 0 }) {
		t.Errorf("%+v", got)
	}
}
