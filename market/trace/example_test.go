package trace_test

import (
	"fmt"
	"strings"

	"github.com/tierml/tierml/market/trace"
)

func ExampleRead() {
	t, err := trace.Read(strings.NewReader("timestamp,instance_type,availability_zone,spot_price\n2014-05-01T12:00:00Z,c3.xlarge,us-west-1a,0.0464\n"), trace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range t.Markets {
		last, _ := m.History.Last()
		fmt.Println(m.Pool, last.Price)
	}
	// Output: ec2/us-west-1/us-west-1a/c3.xlarge/spot 0.0464
}
