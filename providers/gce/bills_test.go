package gce

import (
	"bufio"
	"strings"
	"testing"
)

// Traffic is distinguished from machine time.
func TestExportTellsTrafficApart(t *testing.T) {
	const times = `"usage_start_time":"2026-10-01T01:00:00Z","usage_end_time":"2026-10-01T02:00:00Z"`
	lines, err := exportJSON(bufio.NewReader(strings.NewReader(`[
		{"resource":{"name":"i-1"},"sku":{"description":"N2 Instance Core running in Americas"},` + times + `,"cost":0.5,"credits":[{"amount":-0.1}]},
		{"resource":{"name":"i-1"},"sku":{"description":"Network Inter Zone Data Transfer Out"},` + times + `,"cost":0.25}]`)))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%+v, %v", lines, err)
	}
	if lines[0].Traffic || lines[0].USD != 0.4 || !lines[1].Traffic || lines[1].USD != 0.25 {
		t.Errorf("%+v", lines)
	}
}
