package gce

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/cost/invoice"
)

const billingExport = "GCP billing export"

// bills are the forms in which Google says what machines have cost.
var bills = []invoice.Form{
	{Name: billingExport, Looks: "a detailed GCP billing export (resource.name ...)", Columns: [4]string{"resource.name", "usage_start_time", "usage_end_time", "cost"}},
	{Name: billingExport, Columns: [4]string{"resource_name", "usage_start_time", "usage_end_time", "cost"}},
	{Name: billingExport, First: "{[", Read: exportJSON},
}

// exportJSON reads Google's detailed usage cost export as BigQuery writes it: objects, one after the other or in a list.
// Credits, such as discounts, are part of the cost.
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
	Start   string      `json:"usage_start_time"`
	End     string      `json:"usage_end_time"`
	Cost    json.Number `json:"cost"`
	Credits []struct {
		Amount json.Number `json:"amount"`
	} `json:"credits"`
}

func (e exported) add(lines []invoice.Line) ([]invoice.Line, error) {
	if e.Resource.Name == "" {
		return lines, nil
	}
	l, err := invoice.ReadLine(e.Resource.Name, e.Start, e.End, e.Cost.String())
	if err != nil {
		return nil, err
	}
	for _, c := range e.Credits {
		v, err := c.Amount.Float64()
		if err != nil {
			return nil, fmt.Errorf("a credit: %w", err)
		}
		l.USD += v
	}
	return append(lines, l), nil
}
