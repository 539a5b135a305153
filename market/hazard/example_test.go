package hazard_test

import (
	"fmt"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

func ExampleAssume() {
	fmt.Println(hazard.Assume("ec2", market.InstanceType{Name: "m5.large"}).Says())
	// Output: assumed: a machine is evicted once in 3795 hours, 2222 to 28833 by zone and type (the Spot Instance Advisor's types of us-east-1, June 2025)
}

func ExampleOfMonth() {
	fmt.Printf("%.6f evictions per machine hour\n", hazard.OfMonth(0.05))
	// Output: 0.000070 evictions per machine hour
}
