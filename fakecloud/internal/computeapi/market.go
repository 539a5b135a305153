package computeapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// typeView is a machine type as clients see it.
type typeView struct {
	Kind         string `json:"kind"`
	ID           string `json:"id"`
	Name         string `json:"name"`
	CPUs         int    `json:"guestCpus"`
	MemoryMB     int64  `json:"memoryMb"`
	Architecture string `json:"architecture,omitempty"`
	Zone         string `json:"zone"`
	SelfLink     string `json:"selfLink"`
	// Accelerators are the built-in ones of machines of the type.
	Accelerators []accelerator `json:"accelerators,omitempty"`
}

type accelerator struct {
	Type  string `json:"guestAcceleratorType"`
	Count int    `json:"guestAcceleratorCount"`
}

// accelerators are Compute Engine's words for GPU models: by the model, or by model and memory in GiB if there are several.
var accelerators = map[string]string{"L4": "nvidia-l4", "A100 40": "nvidia-tesla-a100", "A100 80": "nvidia-a100-80gb", "H100": "nvidia-h100-80gb",
	"H200": "nvidia-h200-141gb", "B200": "nvidia-b200", "RTX-PRO-6000": "nvidia-rtx-pro-6000"}

// acceleratorsOf returns a type's accelerators; the H100s of a3-megagpu-8g have another name.
func acceleratorsOf(t region.Type) []accelerator {
	if t.GPU.Count == 0 {
		return nil
	}
	word := cmp.Or(accelerators[fmt.Sprintf("%s %d", t.GPU.Name, t.GPU.MemoryMiB>>10)], accelerators[t.GPU.Name])
	if strings.HasPrefix(t.Name, "a3-megagpu-") {
		word = "nvidia-h100-mega-80gb"
	}
	return []accelerator{{word, t.GPU.Count}}
}

var architectures = map[string]string{market.ArchX86: "X86_64", market.ArchARM: "ARM64"}

func (c *call) typeOf(t region.Type) typeView {
	return typeView{Kind: "compute#machineType", ID: number(t.Name), Name: t.Name, CPUs: t.VCPU, MemoryMB: t.MemoryMiB,
		Architecture: architectures[t.Arch], Accelerators: acceleratorsOf(t), Zone: c.zone(), SelfLink: c.link("zones", c.zone(), "machineTypes", t.Name)}
}

func listTypes(c *call) (any, error) {
	var all []typeView
	for _, t := range c.region.Types() {
		all = append(all, c.typeOf(t))
	}
	return listOf(c, "machineType", all)
}

func getType(c *call) (any, error) {
	for _, t := range c.region.Types() {
		if t.Name == c.PathValue("type") {
			return c.typeOf(t), nil
		}
	}
	return nil, c.notFound("machineTypes", c.PathValue("type"))
}

type zoneView struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	Region   string `json:"region"`
	SelfLink string `json:"selfLink"`
}

func (c *call) zoneView(zone string) zoneView {
	return zoneView{"compute#zone", number(zone), zone, "UP", c.link("regions", c.region.Name()), c.zoneLink(zone)}
}

func listZones(c *call) (any, error) {
	var all []zoneView
	for _, zone := range c.region.Zones() {
		all = append(all, c.zoneView(zone))
	}
	return listOf(c, "zone", all)
}

// historyBody is the body of a question about the past of a pool.
type historyBody struct {
	Types      []string `json:"types"`
	Properties struct {
		MachineType string     `json:"machineType"`
		Scheduling  scheduling `json:"scheduling"`
	} `json:"instanceProperties"`
	Policy struct {
		Location string `json:"location"`
	} `json:"locationPolicy"`
}

type interval struct {
	Start string `json:"startTime"`
	End   string `json:"endTime,omitempty"`
}

type money struct {
	Currency string `json:"currencyCode"`
	Units    string `json:"units,omitempty"`
	Nanos    int64  `json:"nanos,omitempty"`
}

type priceRecord struct {
	Interval interval `json:"interval"`
	Price    money    `json:"listPrice"`
}

type preemptionRecord struct {
	Interval interval `json:"interval"`
	Rate     float64  `json:"preemptionRate"`
}

// capacityHistory returns the price of a pool's Spot machines, and how many of those that ended here were preempted.
func capacityHistory(c *call) (any, error) {
	var body historyBody
	if err := decode(c.body, &body); err != nil {
		return nil, err
	}
	zone := body.Policy.Location[strings.LastIndexByte(body.Policy.Location, '/')+1:]
	if c.PathValue("region") != c.region.Name() || zone == "" || body.Properties.Scheduling.Model != "SPOT" {
		return nil, refusalf(http.StatusBadRequest, "invalid", "A zone of region %s and provisioningModel SPOT are required.", c.region.Name())
	}
	answer := struct {
		Location    string             `json:"location"`
		MachineType string             `json:"machineType"`
		Prices      []priceRecord      `json:"priceHistory,omitempty"`
		Preemptions []preemptionRecord `json:"preemptionHistory,omitempty"`
	}{Location: c.zoneLink(zone), MachineType: body.Properties.MachineType}
	for _, kind := range body.Types {
		switch kind {
		case "PRICE":
			answer.Prices = c.prices(zone, body.Properties.MachineType)
		case "PREEMPTION":
			answer.Preemptions = c.preemptions(zone, body.Properties.MachineType)
		default:
			return nil, invalid("types", kind, "Must be PRICE or PREEMPTION.")
		}
	}
	return answer, nil
}

func (c *call) prices(zone, kind string) []priceRecord {
	changes := c.region.Prices(c.now, region.PriceQuery{Types: []string{kind}, Zones: []string{zone}})
	var records []priceRecord
	end := ""
	for _, change := range changes { // newest first
		start := stamp(change.At)
		if start == "" { // a price that has always held
			start = stamp(time.Unix(0, 0))
		}
		records = append(records, priceRecord{interval{start, end},
			money{"USD", fmt.Sprint(int64(change.Price / market.Dollar)), int64(change.Price % market.Dollar)}})
		end = start
	}
	return records
}

func (c *call) preemptions(zone, kind string) []preemptionRecord {
	ended, preempted := 0, 0
	var first time.Time
	for _, i := range c.region.Instances(c.now) {
		if i.Pool.Zone != zone || i.Pool.Type != kind || i.Pool.Class != market.Spot || i.Ended.IsZero() {
			continue
		}
		if ended++; first.IsZero() {
			first = i.Launched
		}
		if i.Cause.Code == region.CapacityTaken.Operation {
			preempted++
		}
	}
	if ended == 0 {
		return nil
	}
	return []preemptionRecord{{interval{stamp(first), stamp(c.now)}, float64(preempted) / float64(ended)}}
}
