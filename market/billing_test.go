package market

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	spotPool     = Pool{"ec2", "us-west-1", "us-west-1a", "c3.xlarge", Spot}
	onDemandPool = Pool{"ec2", "us-west-1", "us-west-1a", "c3.xlarge", OnDemand}
)

func rules(t testing.TB, name string) RuleBook {
	t.Helper()
	book, err := Rules(name)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func TestRulesNames(t *testing.T) {
	for _, name := range RuleNames() {
		if got := rules(t, name).Name(); got != name {
			t.Errorf("Rules(%q) is called %q", name, got)
		}
	}
	_, err := Rules("ec2-2016")
	if err == nil || !strings.Contains(err.Error(), "ec2-2017, ec2-now, ec2-pay-bid") {
		t.Errorf("unknown rules: %v; want the names that there are", err)
	}
}

// spot returns a machine launched at minute 10 with a bid of 0.239; end is in minutes too, by "" = running.
func spot(end int, by EndedBy) Usage {
	u := Usage{Pool: spotPool, Bid: mils(239), Start: at(10), EndedBy: by}
	if by != Running {
		u.End = at(end)
	}
	return u
}

// TestCharges has worked examples, each from EC2's documentation of the time.
func TestCharges(t *testing.T) {
	h := prices(0, 100, 60, 200, 75, 150)
	onDemand := Usage{Pool: onDemandPool, Start: at(10), End: at(75), EndedBy: ByUser}
	lost := onDemand
	lost.EndedBy = ByProvider
	for _, c := range []struct {
		name  string
		rules string
		u     Usage
		asOf  int
		want  []Charge
	}{
		{
			// EC2 User Guide of 2014-17, "How Spot Instances Work": the price of an instance hour is the spot price
			// at its start; changes within the hour wait for the next one.
			"the price in force when the hour begins", "ec2-2017", spot(130, ByUser), 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(130), Rate: mils(200), Amount: mils(200)},
			},
		},
		{
			// The same guide, "Interruptions": "if you terminate the instance, you pay for the partial hour", as
			// for an On-Demand hour.
			"the last hour in full when the user ends it", "ec2-2017", spot(71, ByUser), 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(130), Rate: mils(200), Amount: mils(200), Note: "begun hour paid in full"},
			},
		},
		{
			// The same place: an hour that EC2 interrupts is not charged.
			"the interrupted hour free", "ec2-2017", spot(129, ByProvider), 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(129), Rate: mils(200), Free: true, Note: "interrupted hour"},
			},
		},
		{
			"interrupted as an hour ends: that hour was a full one", "ec2-2017", spot(70, ByProvider), 1000,
			[]Charge{{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)}},
		},
		{
			"running: each hour is due when it begins", "ec2-2017", spot(0, Running), 70,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(130), Rate: mils(200), Amount: mils(200)},
			},
		},
		{
			"a bill of before the end knows nothing of the end", "ec2-2017", spot(69, ByProvider), 68,
			[]Charge{{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)}},
		},
		{"a bill of before the launch", "ec2-2017", spot(0, Running), 9, nil},
		{
			"ended as it began: the hour had begun", "ec2-2017", spot(10, ByUser), 1000,
			[]Charge{{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100), Note: "begun hour paid in full"}},
		},
		{
			// EC2 pricing page until 2017: "each partial instance-hour consumed will be billed as a full hour".
			"on-demand: whole hours", "ec2-2017", onDemand, 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(130), Rate: mils(200), Amount: mils(200), Note: "begun hour paid in full"},
			},
		},
		{
			"on-demand hours are not free when the machine is lost", "ec2-2017", lost, 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(100), Amount: mils(100)},
				{From: at(70), To: at(130), Rate: mils(200), Amount: mils(200), Note: "begun hour paid in full"},
			},
		},
		{
			"you pay your bid", "ec2-pay-bid", spot(129, ByProvider), 1000,
			[]Charge{
				{From: at(10), To: at(70), Rate: mils(239), Amount: mils(239)},
				{From: at(70), To: at(129), Rate: mils(239), Free: true, Note: "interrupted hour"},
			},
		},
		{
			// EC2 User Guide today, "Billing for interrupted Spot Instances": ended by the user, Linux pays for the
			// seconds used; the spot price in effect applies.
			"per second, each at its price", "ec2-now", spot(80, ByUser), 1000,
			[]Charge{
				{From: at(10), To: at(60), Rate: mils(100), Amount: 83_333_333},
				{From: at(60), To: at(75), Rate: mils(200), Amount: mils(50)},
				{From: at(75), To: at(80), Rate: mils(150), Amount: 12_500_000},
			},
		},
		{
			// The same table: interrupted by EC2 in the first hour, no charge ...
			"interrupted in the first hour", "ec2-now", spot(69, ByProvider), 1000,
			[]Charge{
				{From: at(10), To: at(60), Rate: mils(100), Free: true, Note: "interrupted in its first hour"},
				{From: at(60), To: at(69), Rate: mils(200), Free: true, Note: "interrupted in its first hour"},
			},
		},
		{
			// ... and in any hour after, charged for the seconds used.
			"interrupted after the first hour", "ec2-now", spot(70, ByProvider), 1000,
			[]Charge{
				{From: at(10), To: at(60), Rate: mils(100), Amount: 83_333_333},
				{From: at(60), To: at(70), Rate: mils(200), Amount: 33_333_333},
			},
		},
		{
			"60 seconds at least", "ec2-now", spot(10, ByUser), 1000,
			[]Charge{{From: at(10), To: at(11), Rate: mils(100), Amount: 1_666_667, Note: "60 seconds at least"}},
		},
		{
			"running", "ec2-now", spot(0, Running), 61,
			[]Charge{
				{From: at(10), To: at(60), Rate: mils(100), Amount: 83_333_333},
				{From: at(60), To: at(61), Rate: mils(200), Amount: 3_333_333},
			},
		},
		{"a bill of before the launch", "ec2-now", spot(0, Running), 9, nil},
		{
			// Compute Engine documentation, "VM instance pricing": per second, one minute at least; "Spot VMs":
			// ended by the user, or preempted after the first minute, the time used is charged.
			"per second, preempted after its first minute", "gce-spot", spot(80, ByProvider), 1000,
			[]Charge{
				{From: at(10), To: at(60), Rate: mils(100), Amount: 83_333_333},
				{From: at(60), To: at(75), Rate: mils(200), Amount: mils(50)},
				{From: at(75), To: at(80), Rate: mils(150), Amount: 12_500_000},
			},
		},
		{
			// The same, "Preemptible VM instances": preempted in the first minute after it starts to run, no charge.
			"preempted as its first minute ends", "gce-preemptible", spot(11, ByProvider), 1000,
			[]Charge{{From: at(10), To: at(11), Rate: mils(100), Amount: 1_666_667}},
		},
		{
			"preempted in its first minute", "gce-preemptible",
			Usage{Pool: spotPool, Bid: mils(239), Start: at(10), End: at(10).Add(59 * time.Second), EndedBy: ByProvider}, 1000,
			[]Charge{{From: at(10), To: at(10).Add(59 * time.Second), Rate: mils(100), Free: true, Note: "preempted in its first minute"}},
		},
		{
			"one minute at least", "gce-spot", spot(10, ByUser), 1000,
			[]Charge{{From: at(10), To: at(11), Rate: mils(100), Amount: 1_666_667, Note: "60 seconds at least"}},
		},
	} {
		t.Run(c.rules+" "+c.name, func(t *testing.T) {
			got, err := rules(t, c.rules).Charges(c.u, h, at(c.asOf))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFees: Amazon EBS's pricing page: gp3 costs 0.08 dollars per GB-month in us-east-1; Amazon VPC's: a public IPv4
// address costs 0.005 dollars an hour. 20 GiB and an address for two hours: 2 x (20 x 0.08 / 730 + 0.005) = 0.014384 dollars,
// also when the machine itself is free.
func TestFees(t *testing.T) {
	h := prices(0, 100)
	const name = "ec2-2017+disk=20x0.08+address=0.005"
	book := rules(t, name)
	if book.Name() != name || book.Terms().Increment != time.Hour {
		t.Error(book.Name(), book.Terms())
	}
	plain := rules(t, "ec2-2017")
	for _, u := range []Usage{spot(130, ByUser), spot(129, ByProvider), spot(0, Running), spot(10, ByUser)} {
		charges, err := book.Charges(u, h, at(130))
		if err != nil {
			t.Fatal(err)
		}
		without, err := plain.Charges(u, h, at(130))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(without, charges[1:]); diff != "" {
			t.Error(diff)
		}
		life := 2 * time.Hour
		switch u.End {
		case at(129):
			life -= time.Minute
		case at(10):
			life = time.Minute // at least
		}
		if fee := charges[0]; fee.Amount != USD(2_191_781+5_000_000).For(life) || !fee.To.Equal(u.Start.Add(life)) {
			t.Errorf("%+v: %+v", u, fee)
		}
	}
	if charges, err := book.Charges(spot(0, Running), h, at(9)); err != nil || charges != nil {
		t.Error("before the launch", charges, err)
	}
	for text, says := range map[string]string{
		"ec2-now+disk": "disk=20x0.08", "ec2-now+disk=20": "amount", "ec2-now+disk=0x1": "size in GiB", "ec2-now+address=-1": "out of range",
		"ec2-now+": "want disk", "ec2-now+gpu=1": "want disk", "ec2-2071+address=1": "there are",
	} {
		if book, err := Rules(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v %v", text, book, err)
		}
	}
}

// TestCommitment: EC2's Savings Plans User Guide: a commitment is an hourly spend that is charged "for the duration of the term ...
// regardless of usage". So covered machines add nothing, and other machines are billed as usual.
func TestCommitment(t *testing.T) {
	for _, base := range []string{"ec2-2017", "ec2-now"} {
		book, plain := rules(t, base+"+committed=m5.large@0.0613"), rules(t, base)
		if book.Name() != base+"+committed=m5.large@0.0613" {
			t.Error(book.Name())
		}
		covered := Usage{Pool: Pool{Zone: "us-east-1a", Type: "m5.large", Class: OnDemand}, Start: at(0), End: at(90), EndedBy: ByUser}
		h := Constant(96_000_000)
		charges, err := book.Charges(covered, h, at(90))
		if err != nil {
			t.Fatal(err)
		}
		without, err := plain.Charges(covered, h, at(90))
		if err != nil || Total(without) == 0 {
			t.Fatal(without, err)
		}
		if Total(charges) != 0 || len(charges) != len(without) {
			t.Errorf("%s: %+v", base, charges)
		}
		for i, c := range charges {
			if !c.From.Equal(without[i].From) || !c.To.Equal(without[i].To) || c.Rate != 61_300_000 || !c.Free || c.Note != CommittedNote {
				t.Errorf("%s: %+v beside %+v", base, c, without[i])
			}
		}
		for _, other := range []Usage{
			{Pool: Pool{Zone: "us-east-1a", Type: "m5.large", Class: Spot}, Bid: 96_000_000, Start: at(0), End: at(90), EndedBy: ByUser},
			{Pool: Pool{Zone: "us-east-1a", Type: "m5.xlarge", Class: OnDemand}, Start: at(0), End: at(90), EndedBy: ByUser},
		} {
			got, err := book.Charges(other, h, at(90))
			want, _ := plain.Charges(other, h, at(90))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		}
	}
	for _, text := range []string{"ec2-now+committed=m5.large", "ec2-now+committed=@1", "ec2-now+committed=m5.large@x", "ec2-now+committed=m5.large@-1"} {
		if _, err := Rules(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestEgress: EC2's On-Demand Pricing page, "Data Transfer OUT From Amazon EC2 To": 0.02 dollars per GB to most other regions. It is
// paid once, whether the provider or the user ends the machine that fetched the state, and whatever is free.
func TestEgress(t *testing.T) {
	h := prices(0, 100)
	for _, c := range []struct {
		rules string
		bytes int64
		want  USD
	}{
		{"ec2-now", 50e9, Dollar},
		{"ec2-2017", 1, 0}, // 0.02 billionths
		{"gce-spot", 25, 1},
		{"ec2-now+egress=0.05", 2e9, Dollar / 10},
		{"ec2-now+address=0.005+egress=0", 2e9, 0},
	} {
		book := rules(t, c.rules)
		if book.Name() != c.rules {
			t.Errorf("%s is called %s", c.rules, book.Name())
		}
		for _, u := range []Usage{spot(130, ByUser), spot(20, ByProvider), spot(0, Running)} {
			stayed, err := book.Charges(u, h, at(130))
			if err != nil {
				t.Fatal(err)
			}
			u.Moved = c.bytes
			moved, err := book.Charges(u, h, at(130))
			if err != nil || len(moved) != len(stayed)+1 || Total(moved)-Total(stayed) != c.want {
				t.Errorf("%s, %d bytes: %v beside %v, %v", c.rules, c.bytes, moved, stayed, err)
			}
		}
	}
	for _, text := range []string{"ec2-now+egress", "ec2-now+egress=-1", "ec2-now+egress=2000"} {
		if _, err := Rules(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestTrafficBetweenZones: EC2's On-Demand Pricing page, "Data Transfer within the same AWS Region": data to and from other availability
// zones costs 0.01 dollars per GB in each direction. 5 GB an hour for two hours: 2 x 5 x 2 x 0.01 = 0.2 dollars, only for machines outside
// of the named zone, whether the provider or the user ends them and whatever is free.
func TestTrafficBetweenZones(t *testing.T) {
	h := prices(0, 100)
	plain := rules(t, "ec2-2017")
	for _, c := range []struct {
		home string
		want USD
	}{{spot(0, Running).Pool.Zone, 0}, {"another", Dollar / 5}} {
		name := "ec2-2017+traffic=5x0.01@" + c.home
		book := rules(t, name)
		if book.Name() != name {
			t.Errorf("%s calls itself %s", name, book.Name())
		}
		for _, u := range []Usage{spot(130, ByUser), spot(130, ByProvider), spot(0, Running)} {
			charges, err := book.Charges(u, h, at(130))
			if err != nil {
				t.Fatal(err)
			}
			without, err := plain.Charges(u, h, at(130))
			if err != nil {
				t.Fatal(err)
			}
			if got := Total(charges) - Total(without); got != c.want || (len(charges) > len(without)) != (c.want > 0) {
				t.Errorf("home %s, %+v: traffic costs %s, want %s: %+v", c.home, u, got, c.want, charges)
			}
		}
	}
	all := "ec2-now+disk=20x0.08+address=0.005+traffic=0.25x0.01@us-east-1a"
	if got := rules(t, all).Name(); got != all {
		t.Errorf("%s calls itself %s", all, got)
	}
	for _, text := range []string{"traffic=5x0.01", "traffic=0x0.01@a", "traffic=5@a", "traffic=5x-1@a", "traffic=x@a"} {
		if book, err := Rules("ec2-now+" + text); err == nil {
			t.Errorf("%s was taken: %v", text, book.Name())
		}
	}
}

// TestTerms: what each book's provider promises, and what it does not.
func TestTerms(t *testing.T) {
	for name, want := range map[string]Terms{
		// EC2 User Guide of 2014-17: bids up to ten times on demand; a notice of two minutes, which "cannot be guaranteed".
		"ec2-2017":    {Provider: "ec2", Increment: time.Hour, FreeIncrement: true, MaxBid: 10, Notice: 2 * time.Minute},
		"ec2-pay-bid": {Provider: "ec2", Increment: time.Hour, FreeIncrement: true, PayBid: true, MaxBid: 10, Notice: 2 * time.Minute},
		// Today's guide, "Spot Instance interruption notices": two minutes, "on a best effort basis".
		"ec2-now": {Provider: "ec2", Minimum: time.Minute, FreeWithin: time.Hour, Notice: 2 * time.Minute},
		// Compute Engine, "Preemption process": 30 seconds, best effort; "Preemptible VM instances": 24 hours at most.
		"gce-spot":        {Provider: "gce", Minimum: time.Minute, FreeWithin: time.Minute, Notice: 30 * time.Second},
		"gce-preemptible": {Provider: "gce", Minimum: time.Minute, FreeWithin: time.Minute, Notice: 30 * time.Second, MaxLife: 24 * time.Hour},
	} {
		got := rules(t, name).Terms()
		want.Fees = Fees{Egress: 2 * Dollar / 100} // see TestEgress
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(RuleNames()) != 5 {
		t.Error(RuleNames())
	}
}

// TestNeverAboveTheBid: EC2's guide says that one never pays more than the bid; a price above it can only apply during the two minutes of
// notice.
func TestNeverAboveTheBid(t *testing.T) {
	h := prices(0, 100, 70, 999)
	for _, name := range RuleNames() {
		charges, err := rules(t, name).Charges(spot(72, ByUser), h, at(1000))
		if err != nil {
			t.Fatal(err)
		}
		if last := charges[len(charges)-1]; last.Rate != mils(239) {
			t.Errorf("%s: last line at %s per hour, bid 0.239", name, last.Rate)
		}
	}
}

func TestPerSecondRoundsPriceChangesUp(t *testing.T) {
	change := at(20).Add(300 * time.Millisecond)
	h := NewHistory([]PricePoint{{at(0), mils(100)}, {change, mils(200)}})
	charges, err := rules(t, "ec2-now").Charges(spot(30, ByUser), h, at(1000))
	if err != nil {
		t.Fatal(err)
	}
	if len(charges) != 2 || charges[1].From != at(20).Add(time.Second) {
		t.Errorf("a second costs the price at its start: %v", charges)
	}
}

func TestChargesRefuse(t *testing.T) {
	h := prices(0, 100)
	for _, c := range []struct {
		name, rules, says string
		change            func(*Usage)
	}{
		{"price unknown", "ec2-2017", "is unknown", func(u *Usage) { u.Start = at(-1) }},
		{"price unknown", "ec2-now", "is unknown", func(u *Usage) { u.Start = at(-1) }},
		{"no bid to pay", "ec2-pay-bid", "has no bid", func(u *Usage) { u.Bid = 0 }},
		{"parts of seconds", "ec2-2017", "whole seconds", func(u *Usage) { u.Start = u.Start.Add(1) }},
		{"end before start", "ec2-now", "before start", func(u *Usage) { u.End = at(9) }},
		{"ended by nobody", "ec2-now", "does not go with", func(u *Usage) { u.EndedBy = Running }},
		{"never ended by somebody", "ec2-2017", "does not go with", func(u *Usage) { u.End = time.Time{} }},
		{"no start", "ec2-2017", "no start", func(u *Usage) { u.Start = time.Time{} }},
	} {
		u := spot(70, ByUser)
		c.change(&u)
		charges, err := rules(t, c.rules).Charges(u, h, at(1000))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.rules) {
			t.Errorf("%s, %s: %v, %v; want an error that says %q", c.rules, c.name, charges, err, c.says)
		}
	}
}

// TestChargesFacts: properties of every life of a machine, under every rule book.
func TestChargesFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := append(drawPoints(t), PricePoint{at(-1), mils(5)})
		h := NewHistory(points)
		book, err := Rules(rapid.SampledFrom(RuleNames()).Draw(t, "rules"))
		if err != nil {
			t.Fatal(err)
		}
		u := Usage{
			Pool: rapid.SampledFrom([]Pool{spotPool, onDemandPool}).Draw(t, "pool"), Bid: mils(12),
			Start: at(0).Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "start")) * time.Second),
		}
		asOf := u.Start.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "as of")) * time.Second)
		running := charge(t, book, u, h, asOf)
		if seen := charge(t, book, u, h.Until(asOf), asOf); cmp.Diff(running, seen) != "" {
			t.Fatalf("prices after asOf matter: %s", cmp.Diff(running, seen))
		}
		// In its first minute a machine owes that minute at its last price, which may fall.
		settled := !asOf.Before(u.Start.Add(book.Terms().Minimum))
		if later := charge(t, book, u, h, asOf.Add(time.Second)); settled && Total(later) < Total(running) {
			t.Fatalf("%s is due, and a second later only %s", Total(running), Total(later))
		}

		u.End = u.Start.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "length")) * time.Second)
		u.EndedBy = rapid.SampledFrom([]EndedBy{ByUser, ByProvider}).Draw(t, "by")
		ended := charge(t, book, u, h, u.End)
		if late := charge(t, book, u, h, u.End.AddDate(1, 0, 0)); cmp.Diff(ended, late) != "" {
			t.Fatalf("the bill changes after the end: %s", cmp.Diff(ended, late))
		}
		next := u.Start
		for _, c := range ended {
			amount := c.Rate.For(c.To.Sub(c.From))
			if c.Free {
				amount = 0
			}
			if c.Amount != amount || !c.From.Equal(next) {
				t.Fatalf("line %+v: want from %s, amount %s", c, next, amount)
			}
			next = c.To
		}
		if next.Before(u.End) {
			t.Fatalf("the bill ends at %s, the machine at %s", next, u.End)
		}
	})
}

func charge(t *rapid.T, book RuleBook, u Usage, h *History, asOf time.Time) []Charge {
	charges, err := book.Charges(u, h, asOf)
	if err != nil {
		t.Fatal(err)
	}
	return charges
}

// What is due for a running machine equals its bill, at any time, as prices become known.
func TestDueIsTheTotalOfCharges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(RuleNames()).Draw(t, "rules") + rapid.SampledFrom([]string{"", "+disk=20x0.08+address=0.005"}).Draw(t, "fees")
		book, err := Rules(name)
		if err != nil {
			t.Fatal(err)
		}
		var points []PricePoint
		price := func() USD { return USD(rapid.IntRange(1, 1000).Draw(t, "price")) * Dollar / 1000 }
		for i := range 30 {
			points = append(points, PricePoint{At: at(0).Add(time.Duration(i) * 47 * time.Minute), Price: price()})
		}
		u := Usage{Pool: spotPool, Bid: Dollar / 2, Start: at(0).Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "start")) * time.Second), Moved: 1 << 30}
		known := u.Start
		var paid Paid
		for range 20 {
			known = known.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "known")) * time.Second)
			asOf := u.Start.Add(time.Duration(rapid.IntRange(0, 70000).Draw(t, "as of")) * time.Second)
			h := NewHistory(points).Until(known) // nothing is known yet of later prices
			charges, err := book.Charges(u, h, asOf)
			if err != nil {
				t.Fatal(err)
			}
			if due, err := Due(book, u, h, asOf, known, &paid); err != nil || due != Total(charges) {
				t.Fatalf("%s as of %s: %s is due (%v), and the bill has %s", name, asOf, due, err, Total(charges))
			}
		}
	})
}

// Traffic between zones costs the provider's price: EC2 charges each direction, Compute Engine one. A declared value is kept.
func TestCrossing(t *testing.T) {
	for _, c := range []struct{ book, provider, want string }{
		{"ec2-now+disk=16x0.08", "ec2", "ec2-now+disk=16x0.08+traffic=1.5x0.01@a"},
		{"gce-spot", "gce", "gce-spot+traffic=1.5x0.005@a"},
		{"ec2-now", "kubernetes", "ec2-now"},
		{"ec2-now+traffic=5x0.02@b", "ec2", "ec2-now+traffic=5x0.02@b"},
	} {
		got := Crossing(c.book, c.provider, 1500, "a")
		if _, err := Rules(got); err != nil || got != c.want {
			t.Errorf("%s on %s: %s (%v), want %s", c.book, c.provider, got, err, c.want)
		}
	}
}
