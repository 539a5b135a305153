package pricelist

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/market/advisor"
)

// AdvisorAddress is where the web page of Amazon's Spot Instance Advisor gets its data. It is not documented by AWS.
const AdvisorAddress = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"

// maxAdvice is far above the advisor's file size of half a megabyte.
const maxAdvice = 32 << 20

// Advice returns the Spot Instance Advisor's data from an address, and when they were fetched: from a folder (empty =
// no folder), or anew if those are a day old.
func Advice(ctx context.Context, client *http.Client, address, folder string, now time.Time) (*advisor.Table, time.Time, error) {
	path := ""
	if folder != "" {
		path = filepath.Join(folder, "spot-advisor.json")
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()).Abs() < Fresh {
			if text, err := os.ReadFile(path); err == nil {
				if t, err := advisor.Read(bytes.NewReader(text)); err == nil { // otherwise fetch it again
					return t, info.ModTime().UTC().Truncate(time.Second), nil
				}
			}
		}
	}
	text, err := get(ctx, client, address)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("asking the Spot Instance Advisor: %w", err)
	}
	t, err := advisor.Read(bytes.NewReader(text))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("asking the Spot Instance Advisor: %w", err)
	}
	if path != "" {
		_ = replace(path, text) // otherwise it is fetched again next time
	}
	return t, now.UTC().Truncate(time.Second), nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxAdvice))
}
