package tuner

// costs are the durations of changes by each technique, in seconds, learned from the changes so far (section V: "deduce
// the costs of each individual techniques from the execution metrics"). A change by several techniques takes the sum of
// their durations.
type costs struct {
	changes []change
	each    map[string]float64
}

type change struct {
	techniques []string
	seconds    float64
}

func newCosts() costs { return costs{each: map[string]float64{}} }

// add learns from one change: least squares with nonnegative costs, by coordinate descent.
func (c *costs) add(techniques []string, seconds float64) {
	if len(techniques) == 0 {
		return
	}
	c.changes = append(c.changes, change{techniques, seconds})
	for _, t := range techniques {
		if _, seen := c.each[t]; !seen {
			c.each[t] = 0
		}
	}
	const rounds = 200
	for range rounds {
		for _, t := range c.names() {
			sum, n := 0., 0.
			for _, ch := range c.changes {
				others, has := 0., false
				for _, u := range ch.techniques {
					if u == t {
						has = true
					} else {
						others += c.each[u]
					}
				}
				if has {
					sum, n = sum+ch.seconds-others, n+1
				}
			}
			c.each[t] = max(sum/n, 0)
		}
	}
}

// names returns the techniques in order of first occurrence.
func (c *costs) names() []string {
	var names []string
	seen := map[string]bool{}
	for _, ch := range c.changes {
		for _, t := range ch.techniques {
			if !seen[t] {
				seen[t], names = true, append(names, t)
			}
		}
	}
	return names
}

// expected returns the expected duration expected a change. An unknown technique counts like the most expensive known one: known is false.
func (c *costs) expected(techniques []string) (seconds float64, known bool) {
	dearest := 0.
	for _, name := range c.names() {
		dearest = max(dearest, c.each[name])
	}
	known = true
	for _, t := range techniques {
		cost, seen := c.each[t]
		if !seen {
			cost, known = dearest, false
		}
		seconds += cost
	}
	return seconds, known
}
