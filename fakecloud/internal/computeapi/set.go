package computeapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/internal/pattern"
)

// This file changes what machines carry, under Compute Engine's condition: the caller has seen what it replaces.

// update changes a machine once for each request id.
func (c *call) update(kind string, change func(i region.Instance) error) (any, error) {
	request := c.URL.Query().Get("requestId")
	if before := c.requests[request]; before != nil && request != "" {
		return c.view(before), nil
	}
	i, err := c.find()
	if err != nil {
		return nil, err
	}
	if err := change(i); err != nil {
		return nil, err
	}
	return c.view(c.begin(kind, request, i.ID, c.now.Add(c.lengths.Operation), nil)), nil
}

func stale(what string) error {
	return refusalf(http.StatusPreconditionFailed, "conditionNotMet", "Supplied fingerprint does not match current %s fingerprint.", what)
}

// setMetadata replaces a machine's metadata. A running machine sees it.
func setMetadata(c *call) (any, error) {
	var body metadata
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	if err := body.check(); err != nil {
		return nil, err
	}
	return c.update("setMetadata", func(i region.Instance) error {
		if body.Fingerprint != fingerprint(i.Tags) {
			return stale("metadata")
		}
		return c.region.Modify(c.now, i.ID, func(i *region.Instance) error {
			i.Tags = attributes(body)
			return nil
		})
	})
}

// setTags replaces a machine's network tags, which have no effect here.
func setTags(c *call) (any, error) {
	var body networkTags
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	for _, tag := range body.Items {
		if !nameRule().MatchString(tag) || len(body.Items) > 64 {
			return nil, invalid("resource.tags.items", tag, "Must be at most 64 matches of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
		}
	}
	return c.update("setTags", func(i region.Instance) error {
		if body.Fingerprint != c.givenOf(i).Tags.Fingerprint {
			return stale("tags")
		}
		p := c.Handler.given[i.ID]
		p.Tags = &networkTags{Items: body.Items}
		c.Handler.given[i.ID] = p
		return nil
	})
}

// resetInstance does nothing: a machine is a process, whose end is the machine's.
func resetInstance(c *call) (any, error) {
	return c.update("reset", func(i region.Instance) error {
		if s := c.status(i); s != "RUNNING" && s != "STAGING" {
			return refusalf(http.StatusBadRequest, "resourceNotReady", "The resource 'projects/%s/zones/%s/instances/%s' is not ready", c.project(), i.Pool.Zone, i.ID)
		}
		return nil
	})
}

// publicImages are families of the public projects of images; other projects have no images of their own.
var publicImages = map[string][]string{
	"debian-cloud":      {"debian-11", "debian-12", "debian-13"},
	"ubuntu-os-cloud":   {"ubuntu-2204-lts", "ubuntu-2404-lts-amd64"},
	"rocky-linux-cloud": {"rocky-linux-8", "rocky-linux-9"},
	"cos-cloud":         {"cos-stable"},
}

var namedImage = pattern.Of(`\b(family|name)\s*(?:=|\beq\b)\s*["']?([a-z][-a-z0-9]*)["']?(?:\s|\)|$)`)

// listImages lists the newest image of each family of a public project, and those that the filter names: each exists (getImage).
func listImages(c *call) (any, error) {
	names := map[string]imageView{}
	for _, family := range publicImages[c.project()] {
		names[family] = c.image(family, family)
	}
	for _, named := range namedImage().FindAllStringSubmatch(c.URL.Query().Get("filter"), -1) {
		if named[1] == "family" {
			names[named[2]] = c.image(named[2], named[2])
		} else if _, known := names[named[2]]; !known {
			names[named[2]] = c.image(named[2], "")
		}
	}
	var all []imageView
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, names[name])
	}
	return listOf(c, "image", all)
}

// acceleratorType is a GPU model of the types on sale.
type acceleratorType struct {
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Most        int    `json:"maximumCardsPerInstance"`
	Zone        string `json:"zone"`
	SelfLink    string `json:"selfLink"`
}

func (c *call) acceleratorTypes(zone string) []acceleratorType {
	byName := map[string]acceleratorType{}
	for _, t := range c.region.Types() {
		for _, a := range acceleratorsOf(t) {
			byName[a.Type] = acceleratorType{"compute#acceleratorType", number(a.Type), a.Type, "NVIDIA " + t.GPU.Name, max(a.Count, byName[a.Type].Most),
				c.zoneLink(zone), c.link("zones", zone, "acceleratorTypes", a.Type)}
		}
	}
	var all []acceleratorType
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

func listAcceleratorTypes(c *call) (any, error) {
	return listOf(c, "acceleratorType", c.acceleratorTypes(c.zone()))
}

func aggregateAcceleratorTypes(c *call) (any, error) {
	var all []acceleratorType
	for _, zone := range slices.Sorted(slices.Values(c.region.Zones())) {
		all = append(all, c.acceleratorTypes(zone)...)
	}
	page, next, err := list(c, all)
	return aggregate(c, "acceleratorType", page, next, func(v acceleratorType) string { return v.Zone }), err
}

func getAcceleratorType(c *call) (any, error) {
	for _, a := range c.acceleratorTypes(c.zone()) {
		if a.Name == c.PathValue("name") {
			return a, nil
		}
	}
	return nil, c.notFound("acceleratorTypes", c.PathValue("name"))
}
