package bidding_test

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/bidding"
)

// A save takes 30 seconds and a machine lasts four hours.
func ExampleCheckpointInterval() {
	fmt.Println(bidding.CheckpointInterval(30*time.Second, 4*time.Hour).Round(time.Second))
	// Output: 15m30s
}

func ExampleByName() {
	policy, err := bidding.ByName("tierml")
	fmt.Println(policy.Name(), err)
	_, err = bidding.ByName("tierm")
	fmt.Println(err != nil)
	// Output:
	// tierml <nil>
	// true
}
