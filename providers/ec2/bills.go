package ec2

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/cost/invoice"
)

const usageReport = "AWS cost and usage report"

// bills are the formats of Amazon's cost records.
var bills = []invoice.Form{
	{Name: usageReport, Looks: "an AWS cost and usage report with resource ids (lineItem/ResourceId ...)", Machine: isMachine,
		Columns: [4]string{"lineItem/ResourceId", "lineItem/UsageStartDate", "lineItem/UsageEndDate", "lineItem/UnblendedCost"}, Kind: "lineItem/UsageType", Traffic: isTraffic},
	{Name: usageReport, Machine: isMachine,
		Columns: [4]string{"line_item_resource_id", "line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost"}, Kind: "line_item_usage_type", Traffic: isTraffic},
	{Name: "AWS Spot data feed", Looks: "an AWS Spot data feed (#Version ...)", First: "#", Read: spotDataFeed},
}

// isMachine distinguishes machines from volumes.
func isMachine(name string) bool { return strings.HasPrefix(name, "i-") }

// isTraffic distinguishes traffic sent by machines, such as USW2-DataTransfer-Regional-Bytes, from machine hours, such as
// SpotUsage:c5.large.
func isTraffic(usage string) bool { return strings.HasSuffix(usage, "-Bytes") }

// spotDataFeed reads lines of tab-separated fields, named by a comment. Each line is an hour, or the used part of one, that ends at the
// line's time.
func spotDataFeed(r *bufio.Reader) (lines []invoice.Line, err error) {
	text := bufio.NewScanner(r)
	columns := []string{"Timestamp", "UsageType", "Operation", "InstanceID", "MyBidID", "MyMaxPrice", "MarketPrice", "Charge", "Version"}
	for n := 1; text.Scan(); n++ {
		line := strings.TrimRight(text.Text(), "\r")
		if names, ok := strings.CutPrefix(line, "#Fields:"); ok {
			columns = strings.Fields(names)
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field := func(name string) string {
			parts := strings.Split(line, "\t")
			if i := slices.Index(columns, name); i >= 0 && i < len(parts) {
				return parts[i]
			}
			return ""
		}
		at, err := time.Parse("2006-01-02 15:04:05 MST", field("Timestamp"))
		amount, currency, _ := strings.Cut(field("Charge"), " ")
		usd, err2 := strconv.ParseFloat(amount, 64)
		if currency != "" && currency != "USD" {
			err2 = fmt.Errorf("the charge is in %s", currency)
		}
		if err := errors.Join(err, err2); err != nil || field("InstanceID") == "" {
			return nil, fmt.Errorf("line %d: %w", n, cmp.Or(err, errors.New("it names no machine")))
		}
		hour := at.Truncate(time.Hour)
		lines = append(lines, invoice.Line{Machine: field("InstanceID"), From: hour, To: hour.Add(time.Hour), USD: usd})
	}
	return lines, text.Err()
}
