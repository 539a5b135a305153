package budget

import "testing"

func TestCluster(t *testing.T) {
	for name, c := range map[string]struct {
		over        Do
		spent, rate string
		want        Do
	}{
		"nothing":                {Stop, "0", "0", ""},
		"below":                  {Stop, "7.99", "0.79", ""},
		"near the total":         {Stop, "8", "0", Warn},
		"near the rate":          {Stop, "0", "0.8", Warn},
		"the total":              {Stop, "10", "0", Stop},
		"the total, pause":       {Pause, "10", "0", Pause},
		"the total, warn":        {Warn, "11", "0", Warn},
		"the rate":               {Stop, "0", "1.01", Pause},
		"the rate, pause":        {Pause, "0", "1.01", Pause},
		"the rate, just there":   {Pause, "0", "1", Warn},
		"both: the total counts": {Stop, "12", "3", Stop},
	} {
		d := Cluster{Total: usd("10"), PerHour: usd("1"), WarnAt: 0.8, Over: c.over}.Judge(usd(c.spent), usd(c.rate))
		if d.Do != c.want || (d.Why == "") != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
	if d := (Cluster{Over: Stop, WarnAt: 0.8}).Judge(usd("1000"), usd("1000")); d.Do != "" {
		t.Errorf("no limits: %+v", d)
	}
}
