package trace

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// BenchmarkRead reads a year of 50 pools, a million rows, as CSV and as the AWS command line's JSON.
func BenchmarkRead(b *testing.B) {
	var csv, json bytes.Buffer
	csv.WriteString("timestamp,zone,instance_type,product,price\n")
	json.WriteString("{\"SpotPriceHistory\": [\n")
	const rows, pools = 1_000_000, 50
	at := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range rows {
		at = at.Add(31 * time.Second)
		zone, kind, price := "us-east-1"+string(rune('a'+i%pools/10)), fmt.Sprintf("m4.%dxlarge", 1+i%10), market.USD(i%977+100)*100_000
		fmt.Fprintf(&csv, "%s,%s,%s,%s,%s\n", at.Format(time.RFC3339), zone, kind, LinuxUNIX, price)
		fmt.Fprintf(&json, `{"AvailabilityZone": %q, "InstanceType": %q, "ProductDescription": %q, "SpotPrice": %q, "Timestamp": %q},`+"\n",
			zone, kind, LinuxUNIX, price, at.Format("2006-01-02T15:04:05+00:00"))
	}
	json.Truncate(json.Len() - 2)
	json.WriteString("]}")
	for name, text := range map[string][]byte{"csv": csv.Bytes(), "json": json.Bytes()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t, err := Read(bytes.NewReader(text), Options{})
				if err != nil || t.Summary.Kept != rows {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
