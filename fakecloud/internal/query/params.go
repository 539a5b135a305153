package query

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// params reads the parameters of a call by name and remembers which were read, so that finish finds unknown ones. The first wrong value is
// kept and returned by finish.
type params struct {
	form url.Values
	read map[string]bool
	err  error
}

// Parameters of every call. Those of the signature may be in the query.
var common = []string{
	"Action", "Version", "AWSAccessKeyId", "SignatureMethod", "SignatureVersion", "Signature", "Timestamp", "Expires",
	"SecurityToken", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token",
	"X-Amz-Signature", "X-Amz-SignedHeaders",
}

func newParams(form url.Values) *params {
	p := &params{form: form, read: make(map[string]bool)}
	for _, name := range common {
		p.read[name] = true
	}
	return p
}

// fail keeps the first fault.
func (p *params) fail(e *region.Error) {
	if p.err == nil {
		p.err = e
	}
}

// finish returns the first fault, or the first parameter in order of name that was not read.
func (p *params) finish() error {
	if p.err != nil {
		return p.err
	}
	var unread []string
	for name := range p.form {
		if !p.read[name] {
			unread = append(unread, name)
		}
	}
	if len(unread) > 0 {
		return region.Errorf("UnknownParameter", "The parameter %s is not recognized", slices.Min(unread))
	}
	return nil
}

// ignore reads parameters that have no effect here, with everything below them.
func (p *params) ignore(prefixes ...string) {
	for name := range p.form {
		for _, prefix := range prefixes {
			if name == prefix || strings.HasPrefix(name, prefix+".") {
				p.read[name] = true
			}
		}
	}
}

// unspoken refuses unsupported parameters that change what a call does: ignoring them would be a wrong answer.
func (p *params) unspoken(names ...string) {
	for name := range p.form {
		for _, one := range names {
			if name == one || strings.HasPrefix(name, one+".") {
				p.fail(region.Errorf("Unsupported", "The parameter %s is not supported here.", name))
			}
		}
	}
}

func (p *params) text(name string) string {
	p.read[name] = true
	return p.form.Get(name)
}

func (p *params) required(name string) string {
	v := p.text(name)
	if v == "" {
		p.fail(region.Errorf("MissingParameter", "The request must contain the parameter %s", name))
	}
	return v
}

func (p *params) boolean(name string) bool {
	v := p.text(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		p.invalid(name, v)
	}
	return b
}

func (p *params) number(name string, otherwise int) int {
	v := p.text(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		p.invalid(name, v)
	}
	return n
}

func (p *params) decimal(name string) float64 {
	v := p.text(name)
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f < 0 || f > 1e9 || f != f {
		p.invalid(name, v)
		return 0
	}
	return f
}

func (p *params) time(name string) time.Time {
	v := p.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		p.invalid(name, v)
	}
	return t
}

// price reads dollars per hour. Clients write them with trailing zeros beyond an amount's precision.
func (p *params) price(name string) market.USD {
	v := p.text(name)
	if v == "" {
		return 0
	}
	s := v
	if _, fraction, ok := strings.Cut(s, "."); ok && len(fraction) > 9 {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	price, err := market.ParseUSD(s)
	if err != nil || price <= 0 {
		p.invalid(name, v)
		return 0
	}
	return price
}

func (p *params) base64(name string) []byte {
	v := p.text(name)
	b, err := base64.StdEncoding.DecodeString(v)
	if err != nil {
		p.fail(region.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."))
	}
	if len(b) > 16<<10 {
		p.fail(region.Errorf("InvalidParameterValue", "User data is limited to 16384 bytes"))
	}
	return b
}

func (p *params) invalid(name, value string) {
	p.fail(region.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", value, name))
}

// indices returns the numbers n for which "prefix.n" or something below it exists, sorted. EC2 counts from 1; some clients from 0.
func (p *params) indices(prefix string) []int {
	var list []int
	for name := range p.form {
		rest, ok := strings.CutPrefix(name, prefix+".")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(digits); err == nil && n >= 0 && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

func item(prefix string, n int) string { return fmt.Sprintf("%s.%d", prefix, n) }

// list reads "prefix.1", "prefix.2", ...
func (p *params) list(prefix string) []string {
	var values []string
	for _, n := range p.indices(prefix) {
		values = append(values, p.text(item(prefix, n)))
	}
	return values
}

// tagsOnce reads "prefix.1.Key", "prefix.1.Value", ... of a launch, where a key may occur only once.
func (p *params) tagsOnce(prefix string) map[string]string {
	tags := p.tags(prefix)
	if len(tags) < len(p.indices(prefix)) {
		p.fail(region.Errorf("InvalidParameterValue", "Duplicate tag key specified."))
	}
	return tags
}

// tags reads them for calls where the last of equal keys counts, such as CreateTags.
func (p *params) tags(prefix string) map[string]string {
	tags := make(map[string]string)
	for _, n := range p.indices(prefix) {
		key := p.required(item(prefix, n) + ".Key")
		if strings.HasPrefix(key, "aws:") {
			p.fail(region.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use"))
		}
		tags[key] = p.text(item(prefix, n) + ".Value")
	}
	return tags
}

// tagSpecifications reads the tags by the kind of thing that they apply to.
func (p *params) tagSpecifications(prefix string, kinds ...string) map[string]map[string]string {
	byKind := make(map[string]map[string]string)
	for _, n := range p.indices(prefix) {
		kind := p.required(item(prefix, n) + ".ResourceType")
		if !slices.Contains(kinds, kind) && p.err == nil {
			p.fail(region.Errorf("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind))
		}
		byKind[kind] = p.tagsOnce(item(prefix, n) + ".Tag")
	}
	return byKind
}

// fingerprint covers all parameters except the token and the call's names: idempotency compares it.
func (p *params) fingerprint() string {
	hash := sha256.New()
	names := make([]string, 0, len(p.form))
	for name := range p.form {
		if name != "ClientToken" && name != "DryRun" && !slices.Contains(common, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(hash, "%q=%q\n", name, p.form.Get(name))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func (p *params) clientToken() string {
	token := p.text("ClientToken")
	if len(token) > 64 {
		p.fail(region.Errorf("InvalidParameterValue", "The value for parameter ClientToken is longer than 64 characters"))
	}
	return token
}

// Ids have a prefix and 8 or 17 hexadecimal digits.
func validID(prefix, id string) bool {
	digits, ok := strings.CutPrefix(id, prefix+"-")
	if !ok || len(digits) != 8 && len(digits) != 17 {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}

// instanceIDs reads a list of ids and checks their form.
func (p *params) instanceIDs(prefix string) []string {
	list := p.list(prefix)
	for _, id := range list {
		if !validID("i", id) {
			p.fail(region.Errorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id))
		}
	}
	return list
}
