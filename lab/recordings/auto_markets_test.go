package recordings

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
	"github.com/tierml/tierml/sim/sweep"
)

// autoMarket is a market by which `policy: auto` is judged: some types in some zones of a recording, by a rule book.
type autoMarket struct{ file, catalog, rules, zones, types string }

// autoMarketsOf names the recordings of the data folder; the last years' know no bids.
var autoMarketsOf = []autoMarket{
	{"aws-us-west-1a-c3-2014", "2015-04-02", "ec2-2017", "us-west-1a", "c3.xlarge,c3.2xlarge"},
	{"aws-us-west-1a-c3-2014", "2015-04-02", "ec2-2017", "us-west-1a", "c3.2xlarge,c3.4xlarge"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02", "ec2-2017", "us-east-1a,us-east-1b", "c3.xlarge"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02", "ec2-2017", "us-east-1a,us-east-1b", "d2.8xlarge"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02", "ec2-2017", "us-east-1a", "g2.2xlarge"},
	{"aws-us-east-1-2015-03-to-07", "2015-04-02", "ec2-2017", "us-east-1a,us-east-1b", "r3.large"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1b", "d2.xlarge,d2.2xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1a", "d2.xlarge,d2.2xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1b", "m4.4xlarge,m4.10xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1b", "g2.8xlarge,m4.10xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1a", "r3.large"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1b", "m2.xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-2017", "us-east-1a,us-east-1b", "m3.medium,m3.large"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-12-14", "ec2-2017", "us-east-1a,us-east-1d", "g2.2xlarge"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-12-14", "ec2-2017", "us-east-1c,us-east-1d", "m4.xlarge"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-12-14", "ec2-2017", "us-east-1d,us-east-1e", "r3.large"},
	{"aws-us-east-1-2016-06-to-08-5min", "2016-12-14", "ec2-2017", "us-east-1a,us-east-1c,us-east-1d,us-east-1e", "d2.8xlarge,m4.xlarge,r3.large"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-pay-bid", "us-east-1b", "m4.4xlarge,m4.10xlarge"},
	{"aws-us-east-1-2016-02-to-04", "2016-02-27", "ec2-pay-bid", "us-east-1b", "d2.xlarge,d2.2xlarge"},
	{"aws-us-east-1-2021-03-to-04", "2022-06-22", "ec2-now", "us-east-1a", "c5.xlarge,c5.2xlarge"},
	{"aws-us-east-1-2021-03-to-04", "2022-06-22", "ec2-now", "us-east-1a,us-east-1c,us-east-1d", "c4.xlarge,c4.2xlarge"},
	{"aws-us-east-1-2021-03-to-04", "2022-06-22", "ec2-now", "us-east-1a,us-east-1c,us-east-1d", "c5.xlarge,c5.4xlarge,m5.xlarge"},
	{"aws-gpu-2019-2020", "2022-06-22", "ec2-now", "us-east-1a,us-east-1b,us-east-1c,us-east-1d", "p2.xlarge"},
	{"aws-gpu-2019-2020", "2022-06-22", "ec2-now", "us-east-1c,us-east-1d", "p2.8xlarge,p2.16xlarge"},
}

func (m autoMarket) name() string {
	return strings.Join([]string{strings.TrimPrefix(m.file, "aws-"), m.rules, strings.ReplaceAll(m.zones, ",", "+"), strings.ReplaceAll(m.types, ",", "+")}, " ")
}

// autoMarkets returns the jobs to judge by, with a reliable machine as small as `reliable: auto` takes for a small model.
func autoMarkets(t *testing.T, data string) (out []cell) {
	t.Helper()
	type source struct{ file, catalog string }
	read := map[source][]bidding.Candidate{}
	for _, m := range autoMarketsOf {
		from := source{filepath.Join(data, "spot", m.file+".csv.gz"), filepath.Join(data, "catalog", "aws-ondemand-linux-"+m.catalog+".csv.gz")}
		if read[from] == nil {
			read[from] = recordedPools(t, from.file, from.catalog)
		}
		pools := slices.DeleteFunc(slices.Clone(read[from]), func(c bidding.Candidate) bool {
			return !slices.Contains(strings.Split(m.zones, ","), c.Pool.Zone) || !slices.Contains(strings.Split(m.types, ","), c.Type.Name)
		})
		if len(pools) == 0 {
			t.Fatalf("%s: no such pools", m.name())
		}
		slices.SortFunc(pools, func(a, b bidding.Candidate) int { return a.Type.VCPU - b.Type.VCPU })
		rules, err := market.Rules(m.rules)
		if err != nil {
			t.Fatal(err)
		}
		catalog, err := market.ReadCatalog(reader(t, from.catalog))
		if err != nil {
			t.Fatal(err)
		}
		job := cellJob(rules, pools...)
		if small, ok := catalog.Lookup(pools[0].Pool.Region, "t2.micro"); ok {
			small, _ = shapes.Complete(small)
			at := pools[0].Pool
			at.Type, at.Class = small.Name, market.OnDemand
			job.Reliable = elasticity.Reliable{Pool: at, Type: small, Count: 1}
		} else {
			t.Fatal(m.name(), "no t2.micro")
		}
		n := 0
		for _, p := range pools {
			n += crossings(p)
		}
		job.Checkpoints.Every = 5 * time.Minute
		if err := (sweep.Evictions{}).Apply(&job); err != nil {
			t.Fatal(err)
		}
		out = append(out, cell{name: m.name(), crossings: n, job: job})
	}
	return out
}
