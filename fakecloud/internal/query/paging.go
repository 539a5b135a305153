package query

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// page is a part of a list. The next one is named by a token, which also contains the time of the first, for lists that would otherwise
// shift between pages.
type page struct {
	offset, size int
	asOf         time.Time
}

// page reads MaxResults and NextToken. EC2 refuses sizes out of bounds.
func (c *call) page(least, most int) page {
	p := page{size: c.number("MaxResults", most), asOf: c.now}
	if c.text("MaxResults") != "" && (p.size < least || p.size > most) {
		c.fail(region.Errorf("InvalidParameterValue",
			"Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", p.size, least, most))
	}
	token := c.text("NextToken")
	if token == "" {
		return p
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	var unixNano int64
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d/%d", &p.offset, &unixNano)
	}
	if err != nil || p.offset < 0 {
		c.fail(region.Errorf("InvalidParameterValue", "Invalid value for NextToken."))
	}
	p.asOf = time.Unix(0, unixNano)
	return p
}

// cut returns a page of a list, and the token of the next.
func cut[T any](list []T, p page) ([]T, string) {
	from := min(p.offset, len(list))
	to := min(from+p.size, len(list))
	if to == len(list) {
		return list[from:to], ""
	}
	token := fmt.Sprintf("%d/%d", to, p.asOf.UnixNano())
	return list[from:to], base64.RawURLEncoding.EncodeToString([]byte(token))
}
