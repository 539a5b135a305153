package gce

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tierml/tierml/cost/invoice"
)

const billingExport = "GCP billing export"

// bills are the formats in which Google exports the costs of machines.
var bills = []invoice.Form{
	{Name: billingExport, Looks: "a detailed GCP billing export (resource.name ...)", Columns: [4]string{"resource.name", "usage_start_time", "usage_end_time", "cost"},
		Kind: "sku.description", Traffic: isTraffic},
	{Name: billingExport, Columns: [4]string{"resource_name", "usage_start_time", "usage_end_time", "cost"}, Kind: "sku_description", Traffic: isTraffic},
	{Name: billingExport, First: "{[", Read: exportJSON},
}

// isTraffic distinguishes machines' traffic, such as "Network Inter Zone Data Transfer Out", from their time.
func isTraffic(sku string) bool { return strings.HasPrefix(sku, "Network ") }

// exportJSON reads Google's detailed usage cost export as BigQuery writes it: consecutive objects or a list. Credits,
// such as discounts, are part of the cost.
func exportJSON(r *bufio.Reader) (lines []invoice.Line, err error) {
	if head, _ := r.Peek(1); head[0] == '[' {
		var all []exported
		if err := json.NewDecoder(r).Decode(&all); err != nil {
			return nil, err
		}
		for i, e := range all {
			if lines, err = e.add(lines); err != nil {
				return nil, fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
		return lines, nil
	}
	objects := json.NewDecoder(r)
	for n := 1; ; n++ {
		var e exported
		err := objects.Decode(&e)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err == nil {
			lines, err = e.add(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
	}
}

type exported struct {
	Resource struct {
		Name string `json:"name"`
	} `json:"resource"`
	SKU struct {
		Description string `json:"description"`
	} `json:"sku"`
	Start   string      `json:"usage_start_time"`
	End     string      `json:"usage_end_time"`
	Cost    json.Number `json:"cost"`
	Credits []struct {
		Amount json.Number `json:"amount"`
	} `json:"credits"`
}

func (e exported) add(lines []invoice.Line) ([]invoice.Line, error) {
	if e.Start == "" || e.End == "" {
		return nil, errors.New("it has no usage_start_time and usage_end_time, so this is no GCP billing export; of a run on the fake cloud `tierml report` compares the cloud's bill by itself")
	}
	if e.Resource.Name == "" {
		return lines, nil
	}
	l, err := invoice.ReadLine(e.Resource.Name, e.Start, e.End, e.Cost.String())
	if err != nil {
		return nil, err
	}
	l.Traffic = isTraffic(e.SKU.Description)
	for _, c := range e.Credits {
		v, err := c.Amount.Float64()
		if err != nil {
			return nil, fmt.Errorf("a credit: %w", err)
		}
		l.USD += v
	}
	return append(lines, l), nil
}
