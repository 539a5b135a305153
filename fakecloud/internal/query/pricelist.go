package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// This file implements the AWS Price List API (AWSPriceListService, JSON 1.1), at EC2's address: AWS has a separate one. It has the
// on-demand prices of the types on sale.

// jsonActions are answered in JSON, selected by the header X-Amz-Target.
var jsonActions = map[string]func(r *region.Region, now time.Time, body []byte) (any, error){
	"AWSPriceListService.GetProducts": getProducts,

	"AmazonSSM.GetParameter": func(r *region.Region, _ time.Time, body []byte) (any, error) { return getParameter(r, body) },

	"ServiceQuotasV20190624.ListServiceQuotas": func(r *region.Region, _ time.Time, body []byte) (any, error) { return listQuotas(r, body) },
	"ServiceQuotasV20190624.GetServiceQuota":   func(r *region.Region, _ time.Time, body []byte) (any, error) { return getQuota(r, body) },
}

// jsonTarget is the header that names a call of JSON 1.1.
const jsonTarget = "X-Amz-Target"

func (h *Handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	requestID := fmt.Sprintf("00000000-0000-4000-8000-%012x", h.calls.Add(1))
	name := r.Header.Get(jsonTarget)
	answer, err := h.actJSON(w, r, name)
	status := http.StatusOK
	if err != nil {
		refusal, ok := errors.AsType[*region.Error](err)
		if !ok {
			refusal = region.Errorf("InternalErrorException", "%v", err)
		}
		h.log.Debug("request refused", "action", name, "code", refusal.Code, "message", refusal.Message)
		answer = map[string]string{"__type": refusal.Code, "message": refusal.Message}
		if status = http.StatusBadRequest; !ok {
			status = http.StatusInternalServerError
		}
	} else {
		h.log.Debug("request", "action", name)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // a client that has disconnected needs no answer
}

func (h *Handler) actJSON(w http.ResponseWriter, r *http.Request, name string) (answer any, err error) {
	act, known := jsonActions[name]
	if !known {
		return nil, region.Errorf("UnknownOperationException", "%s is not spoken here.", name)
	}
	body, err := readAll(w, r)
	if err != nil {
		return nil, region.Errorf("SerializationException", "%v", err)
	}
	h.backend.Do(func(r *region.Region, now time.Time) {
		if r.Throttled(now) {
			err = region.Errorf("ThrottlingException", "Rate exceeded")
			return
		}
		answer, err = act(r, now, body)
	})
	return answer, err
}

// productQuestion is the body of GetProducts.
type productQuestion struct {
	ServiceCode   string
	FormatVersion string
	MaxResults    int
	NextToken     string
	Filters       []struct{ Type, Field, Value string }
}

// getProducts returns the types on sale as products. Filters compare attributes, all of which must match.
func getProducts(r *region.Region, now time.Time, body []byte) (any, error) {
	q := productQuestion{MaxResults: 100}
	if err := strictly(body, &q); err != nil {
		return nil, region.Errorf("SerializationException", "%v", err)
	}
	if q.ServiceCode != "AmazonEC2" {
		return nil, region.Errorf("NotFoundException", "Service %q is not in this price list.", q.ServiceCode)
	}
	if q.MaxResults < 1 || q.MaxResults > 100 {
		return nil, region.Errorf("InvalidParameterException", "MaxResults is from 1 to 100.")
	}
	var list []string
	for _, t := range r.Types() {
		attributes := attributesOf(r.Name(), t)
		for _, f := range q.Filters {
			if f.Type != "TERM_MATCH" {
				return nil, region.Errorf("InvalidParameterException", "Filters of type %q are not known here; use TERM_MATCH.", f.Type)
			}
			if _, known := attributes[f.Field]; !known {
				return nil, region.Errorf("InvalidParameterException", "There is no attribute %q here.", f.Field)
			}
		}
		if !slices.ContainsFunc(q.Filters, func(f struct{ Type, Field, Value string }) bool { return attributes[f.Field] != f.Value }) {
			text, err := json.Marshal(productOf(t, attributes, now))
			if err != nil {
				return nil, err
			}
			list = append(list, string(text))
		}
	}
	first, err := strconv.Atoi("0" + q.NextToken)
	if err != nil || first > len(list) {
		return nil, region.Errorf("InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token.")
	}
	answer := map[string]any{"FormatVersion": "aws_v1", "PriceList": list[first:min(first+q.MaxResults, len(list))]}
	if first+q.MaxResults < len(list) {
		answer["NextToken"] = strconv.Itoa(first + q.MaxResults)
	}
	return answer, nil
}

// attributesOf returns the attributes that distinguish products, in the words of the real list.
func attributesOf(regionName string, t region.Type) map[string]string {
	return map[string]string{
		"servicecode": "AmazonEC2", "instanceType": t.Name, "regionCode": regionName, "locationType": "AWS Region",
		"operatingSystem": "Linux", "preInstalledSw": "NA", "licenseModel": "No License required", "tenancy": "Shared",
		"capacitystatus": "Used", "marketoption": "OnDemand", "currentGeneration": "Yes", "operation": "RunInstances",
		"vcpu": strconv.Itoa(t.VCPU), "memory": strconv.FormatFloat(float64(t.MemoryMiB)/1024, 'f', -1, 64) + " GiB",
	}
}

// productOf returns an entry of the list. It is published on the market's present day.
func productOf(t region.Type, attributes map[string]string, now time.Time) any {
	const offer, rate = "JRTCKXETXF", "6YS6EN2CT7" // the codes of all on-demand offers
	sku := strings.ToUpper(strings.NewReplacer(".", "", "-", "").Replace(t.Name))
	published := now.UTC().Truncate(24 * time.Hour).Format(time.RFC3339)
	return map[string]any{
		"serviceCode": "AmazonEC2", "version": now.UTC().Format("20060102") + "000000", "publicationDate": published,
		"product": map[string]any{"productFamily": "Compute Instance", "sku": sku, "attributes": attributes},
		"terms": map[string]any{"OnDemand": map[string]any{sku + "." + offer: map[string]any{
			"sku": sku, "offerTermCode": offer, "effectiveDate": published, "termAttributes": map[string]string{},
			"priceDimensions": map[string]any{sku + "." + offer + "." + rate: map[string]any{
				"rateCode": sku + "." + offer + "." + rate, "unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": []string{},
				"description":  fmt.Sprintf("$%s per On Demand Linux %s Instance Hour", t.OnDemand, t.Name),
				"pricePerUnit": map[string]string{"USD": tenDecimals(t.OnDemand)},
			}},
		}}},
	}
}

// tenDecimals formats prices like the real list.
func tenDecimals(u market.USD) string {
	return fmt.Sprintf("%d.%09d0", u/market.Dollar, u%market.Dollar)
}

func readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
}

// strictly refuses fields that no real client would send.
func strictly(body []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(to)
}
