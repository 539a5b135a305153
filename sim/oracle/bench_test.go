package oracle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// restless is two spot pools whose prices change all the time, and machines on demand.
func restless(tb testing.TB, book string) Config {
	rules, err := market.Rules(book)
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)
	c := Config{
		Terms: rules.Terms(), Startup: 5 * time.Minute, Notice: 2 * time.Minute, First: start,
		Last: start.Add(20 * 24 * time.Hour), Horizon: 40 * time.Hour,
		Reliable: Reliable{PerHour: market.Dollar, Rate: 8, Stand: 5 * time.Minute},
	}
	for i := range 2 {
		var points []market.PricePoint
		for at := start; at.Before(c.Last); at = at.Add(time.Duration(1+random.IntN(900)) * time.Second) {
			price := market.Dollar / 8
			if random.IntN(100) == 0 {
				price = 2 * market.Dollar
			}
			points = append(points, market.PricePoint{At: at, Price: price + market.USD(random.IntN(1e8))})
		}
		c.Options = append(c.Options, Option{
			Pool:   market.Pool{Provider: "ec2", Zone: "a", Type: fmt.Sprint(i), Class: market.Spot},
			Prices: market.NewHistory(points), Bid: market.Dollar, Machines: 16 >> i, Rate: float64(int(4) << i),
		})
	}
	c.Options = append(c.Options, Option{
		Pool:   market.Pool{Provider: "ec2", Zone: "a", Type: "0", Class: market.OnDemand},
		Prices: market.Constant(market.Dollar), Machines: 16, Rate: 4,
	})
	return c
}

// BenchmarkProgram works backward through ten hours at one price for work.
func BenchmarkProgram(b *testing.B) {
	for _, book := range []string{"ec2-2017", "ec2-now"} {
		b.Run(book, func(b *testing.B) {
			o, err := New(restless(b, book))
			if err != nil {
				b.Fatal(err)
			}
			s := o.Search()
			for i := 0; b.Loop(); i++ {
				from := 600 * (i % 40)
				s.program.run(from, from+600, s.price(200))
			}
		})
	}
}

// BenchmarkCost asks for consecutive starts of eight hours of work.
func BenchmarkCost(b *testing.B) {
	for _, book := range []string{"ec2-2017", "ec2-now"} {
		b.Run(book, func(b *testing.B) {
			c := restless(b, book)
			o, err := New(c)
			if err != nil {
				b.Fatal(err)
			}
			s := o.Search()
			for i := 0; b.Loop(); i++ {
				s.Cost(c.First.Add(time.Duration(i%20000)*time.Minute), 8*64)
			}
		})
	}
}
