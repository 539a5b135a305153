package main

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// paced is a program whose steps follow the clock, however busy the host is.
const paced = `
stop=
trap 'stop=1' TERM
at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
due=${EPOCHREALTIME/./}
while [ -z "$stop" ] && [ "$at" -lt 100 ]; do
  due=$((due + 250000)) left=$((due - ${EPOCHREALTIME/./}))
  [ $left -le 0 ] || sleep $(printf 0.%06d $left) || true
  at=$((at + 1))
  echo "$at" >"$TIERML_STATE/at.tmp"
  (trap '' TERM; exec mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at")
  echo "step $at of 100"
done
[ -z "$stop" ] || exit 143
`

// After one undisturbed run, and calibrated with it, the plan predicts within 5 % the bill of a run whose machines are reclaimed midway, by a
// recorded price or by the job's script, and so does the dry run from the same start: make -C lab program-bills.
func TestProgramBills(t *testing.T) {
	if os.Getenv("TIERML_PROGRAM_BILLS") == "" {
		t.Skip("it takes minutes: make -C lab program-bills")
	}
	const (
		steady = "timestamp,zone,instance_type,product,price\n2014-03-01T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.02\n"
		peak   = "2014-04-02T00:12:00Z,us-west-1a,c3.large,Linux/UNIX,0.5\n2014-04-02T00:20:00Z,us-west-1a,c3.large,Linux/UNIX,0.025\n"
		last   = "2014-04-09T00:00:00Z,us-west-1a,c3.large,Linux/UNIX,0.025\n"
	)
	for _, c := range []struct{ name, resources, prices, script string }{
		{"single", "resources: {count: 1, ", steady + peak + last, ""},
		{"gang", "resources: {count: 2, ", steady + peak + last, ""},
		{"array", "tasks: 3\nresources: {count: 2, ", steady + peak + last, ""},
		{"orders", "resources: {count: 1, ", steady + last, "  script: [{at: 8m, do: evict, target: oldest}, {at: 16m, do: kill, target: oldest}]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write("prices.csv", c.prices)
			job := s.programJob(c.resources+"any_of: [{type: c3.large, max_price: 0.10}]}", "run: bash paced.sh", "setup: sleep 0.7")
			s.write("work/paced.sh", paced)
			change := strings.NewReplacer("of: 160", "of: 100", "  speed:", "  rules: ec2-now\n  speed:", "boot: 100ms", "boot: 300ms")
			text := change.Replace(string(must(os.ReadFile(s.path(job)))(t)))
			s.write(job, text)
			s.start("run", "-y", job).wait(cli.ExitDone)
			s.start("calibrate", "own-1").wait(cli.ExitDone)
			s.write(job, strings.NewReplacer("hours: 0.1\n", "", "2014-04-01T00:00:00Z", "2014-04-02T00:00:00Z").Replace(text)+c.script)
			var plan journal.PlanDetails
			if err := json.Unmarshal([]byte(s.start("plan", "-o", "json", job).wait(cli.ExitDone)), &plan); err != nil || plan.Prediction == nil {
				t.Fatalf("%+v, %v", plan, err)
			}
			var dry []struct {
				Mean float64 `json:"cost_mean"`
			}
			if err := json.Unmarshal([]byte(s.start("dry-run", "--policy", "checkpoint", "-o", "json", job).wait(cli.ExitDone)), &dry); err != nil || len(dry) != 1 {
				t.Fatalf("%+v, %v", dry, err)
			}
			s.start("run", "-y", job).wait(cli.ExitDone)
			bill := s.report("own-2")
			paid := float64(bill.Totals.Total) / float64(market.Dollar)
			for who, said := range map[string]float64{"plan": must(strconv.ParseFloat(plan.Prediction.USD, 64))(t), "dry run": dry[0].Mean} {
				off := said/paid - 1
				t.Logf("%s: %.6f predicted by the %s, %s paid: %+.1f %%", c.name, said, who, bill.Totals.Total, 100*off)
				if math.Abs(off) > 0.05 {
					t.Errorf("the bill is %s, predicted by the %s was %v", bill.Totals.Total, who, said)
				}
			}
			if bill.Programs.Stopped == 0 {
				t.Errorf("nothing was evicted: %+v", bill.Programs)
			}
		})
	}
}
