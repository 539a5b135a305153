package fakecloud

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a provider whose protocols the cloud speaks, with that provider's defaults.
type Kind struct {
	Name, Title string
	Rules       string        // the rule book
	Notice      time.Duration // before an eviction
	Try         string        // an example request, with {endpoint} and {region} in it
}

// Kinds are the supported providers. The first is the default.
var Kinds = []Kind{
	{EC2, "EC2", "ec2-2017", 2 * time.Minute,
		"AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any aws --region {region} --endpoint-url {endpoint} ec2 describe-spot-price-history --max-items 3"},
	{GCE, "Compute Engine", "gce-spot", 30 * time.Second, "curl {endpoint}/compute/v1/projects/any/aggregated/instances"},
}

// KindNames lists their names, for display.
func KindNames(between string) string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = k.Name
	}
	return strings.Join(names, between)
}

// KindNamed finds one.
func KindNamed(name string) (Kind, error) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fmt.Errorf("provider %q: there are %s", name, KindNames(" and "))
	}
	return Kinds[i], nil
}
