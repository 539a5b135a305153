package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"kitten", "sitting", 3}, {"rank", "rnak", 1}, {"same", "same", 0}, {"abc", "", 3}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("the distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"rank", "step", "any_of", "max_duration", "vcpu", "cpus"}
	for wrong, want := range map[string]string{"rnak": "rank", "Any-Of": "any_of", "max_durtaion": "max_duration", "xyz": "", "": "", "cpu": "cpus", "vcpus": "vcpu"} {
		if got := Nearest(wrong, names); got != want {
			t.Errorf("%q means %q, want %q", wrong, got, want)
		}
	}
}
