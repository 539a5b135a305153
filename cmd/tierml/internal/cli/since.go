package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Since parses a time, or a duration before now.
func Since(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n < 1e5 {
			return now.Add(-time.Duration(n * float64(24*time.Hour))), nil
		}
	}
	if length, err := time.ParseDuration(text); err == nil && length > 0 {
		return now.Add(-length), nil
	}
	return time.Time{}, fmt.Errorf("--since %q: write a time such as 2026-10-01T00:00:00Z, or a length such as 24h or 30d", text)
}
