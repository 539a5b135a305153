package market_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

var noon = time.Date(2014, 5, 1, 12, 0, 0, 0, time.UTC)

func ExampleParsePool() {
	pool, err := market.ParsePool("ec2/us-west-1/us-west-1a/c3.xlarge/spot")
	fmt.Println(pool.Zone, pool.Type, pool.Class, err)
	// Output: us-west-1a c3.xlarge spot <nil>
}

func ExampleParseUSD() {
	price, _ := market.ParseUSD("0.239")
	fmt.Println(price.For(90 * time.Minute))
	// Output: 0.3585
}

// A spot machine of 2014 costs whole hours, each at the price at its beginning. The hour in which EC2 takes it back is free.
func ExampleRules() {
	book, _ := market.Rules("ec2-2017")
	pool, _ := market.ParsePool("ec2/us-west-1/us-west-1a/c3.xlarge/spot")
	history := market.NewHistory([]market.PricePoint{
		{At: noon, Price: market.Dollar / 20}, {At: noon.Add(90 * time.Minute), Price: market.Dollar / 10},
	})
	end := noon.Add(150 * time.Minute)
	charges, err := book.Charges(market.Usage{Pool: pool, Bid: market.Dollar, Start: noon, End: end, EndedBy: market.ByProvider}, history, end)
	for _, c := range charges {
		fmt.Printf("%s %v %q\n", c.From.Format("15:04"), c.Amount, c.Note)
	}
	fmt.Println(market.Total(charges), err)
	// Output:
	// 12:00 0.05 ""
	// 13:00 0.05 ""
	// 14:00 0 "interrupted hour"
	// 0.1 <nil>
}

func ExampleHistory_At() {
	history := market.NewHistory([]market.PricePoint{{At: noon, Price: market.Dollar}})
	_, before := history.At(noon.Add(-time.Second))
	price, known := history.At(noon.Add(time.Hour))
	fmt.Println(before, price, known)
	// Output: false 1 true
}

// The price exceeds the bid in every third hour, so a machine bought at a random time below the bid lasts an hour on average.
func ExampleMTTF() {
	var points []market.PricePoint
	for hour := range 24 {
		price := market.Dollar / 10
		if hour%3 == 2 {
			price = market.Dollar
		}
		points = append(points, market.PricePoint{At: noon.Add(time.Duration(hour) * time.Hour), Price: price})
	}
	estimate := market.MTTF(market.NewHistory(points), noon.Add(22*time.Hour), market.Dollar/2)
	fmt.Println(estimate.Known, estimate.Episodes, estimate.Mean.Round(time.Minute))
	// Output: true 7 1h2m0s
}

func ExampleReadCatalog() {
	catalog, err := market.ReadCatalog(strings.NewReader("region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\nus-west-1,c3.xlarge,4,7.5,0.239\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	t, known := catalog.Lookup("us-west-1", "c3.xlarge")
	fmt.Println(t.VCPU, t.OnDemand, known)
	// Output: 4 0.239 true
}
