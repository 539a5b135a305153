// Package gceprice reads the price list of Google Compute Engine: the answer of the Cloud Billing Catalog API to
// services/6F81-5844-456A/skus, in one or several pages. Compute Engine sells cores and memory, each with a price per region; the price of
// a machine type follows from its shape.
//
// It does not know where the list comes from. It knows the shapes of the predefined types of the older families below,
// and returns prices of all types to callers that know a shape (List.Offer), including GPUs; it skips everything else
// (custom types, shared cores, machines with local disks of their own or with GPUs of unlisted families).
package gceprice

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/decompress"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
)

// Provider is Compute Engine's name in pools.
const Provider = "gce"

// Offer is a machine type in a region.
type Offer struct {
	Region   string
	Type     market.InstanceType // with the on-demand price
	Spot     market.USD          // per hour; 0 = not sold as Spot
	SpotFrom time.Time           // when that price took effect
}

// List is a price list.
type List struct {
	Offers  []Offer // sorted by region, then type
	SKUs    int     // number read
	rates   map[part]rate
	Ignored int // number for products other than cores and memory of the known families, or on other terms
}

// family is how a family of types is sold.
type family struct {
	cores, memory string // the SKU's description up to " running in"
	arch          string
	shapes        map[string]float64 // GiB per core, by the middle word of the type's name
	sizes         []int              // cores
}

// The families whose shapes are known, as "Machine families" of Compute Engine's documentation lists them.
var families = map[string]family{
	"n1": {"N1 Predefined Instance Core", "N1 Predefined Instance Ram", market.ArchX86,
		map[string]float64{"standard": 3.75, "highmem": 6.5, "highcpu": 0.9}, []int{2, 4, 8, 16, 32, 64, 96}},
	"n2": {"N2 Instance Core", "N2 Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int{2, 4, 8, 16, 32, 48, 64, 80}},
	"n2d": {"N2D AMD Instance Core", "N2D AMD Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int{2, 4, 8, 16, 32, 48, 64, 80}},
	"e2": {"E2 Instance Core", "E2 Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}, []int{2, 4, 8, 16}},
	"c2": {"Compute optimized Core", "Compute optimized Ram", market.ArchX86,
		map[string]float64{"standard": 4}, []int{4, 8, 16, 30, 60}},
	"c2d": {"C2D AMD Instance Core", "C2D AMD Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int{2, 4, 8, 16, 32, 56, 112}},
	"c3": {"C3 Instance Core", "C3 Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4, "highmem": 8, "highcpu": 2}, []int{4, 8, 22, 44, 88, 176}},
	"t2d": {"T2D AMD Instance Core", "T2D AMD Instance Ram", market.ArchX86,
		map[string]float64{"standard": 4}, []int{1, 2, 4, 8, 16, 32, 48, 60}},
	// Price lists lack their shapes: compute.machineTypes has them.
	"g2":  {"G2 Instance Core", "G2 Instance Ram", market.ArchX86, nil, nil},
	"a2":  {"A2 Instance Core", "A2 Instance Ram", market.ArchX86, nil, nil},
	"a3":  {"A3 Instance Core", "A3 Instance Ram", market.ArchX86, nil, nil},
	"c3d": {"C3D Instance Core", "C3D Instance Ram", market.ArchX86, nil, nil},
	"c4":  {"C4 Instance Core", "C4 Instance Ram", market.ArchX86, nil, nil},
	"c4d": {"C4D Instance Core", "C4D Instance Ram", market.ArchX86, nil, nil},
	"n4":  {"N4 Instance Core", "N4 Instance Ram", market.ArchX86, nil, nil},
	"c4a": {"C4A Arm Instance Core", "C4A Arm Instance Ram", market.ArchARM, nil, nil},
	"t2a": {"T2A Arm Instance Core", "T2A Arm Instance Ram", market.ArchARM,
		map[string]float64{"standard": 4}, []int{1, 2, 4, 8, 16, 32, 48}},
}

// sku is the part of a line that is read.
type sku struct {
	ID          string   `json:"skuId"`
	Description string   `json:"description"`
	Regions     []string `json:"serviceRegions"`
	Category    struct {
		Family string `json:"resourceFamily"`
		Usage  string `json:"usageType"`
	} `json:"category"`
	Pricing []struct {
		Effective  time.Time `json:"effectiveTime"`
		Expression struct {
			Unit  string `json:"usageUnit"`
			Tiers []struct {
				Price struct {
					Currency string `json:"currencyCode"`
					Units    string `json:"units"`
					Nanos    int64  `json:"nanos"`
				} `json:"unitPrice"`
			} `json:"tieredRates"`
		} `json:"pricingExpression"`
	} `json:"pricingInfo"`
}

// gpuParts are the SKUs of GPUs, by description up to " running in" and, of Spot ones, " attached to": model and GiB of each. Their
// families' cores and memory are in families.
var gpuParts = map[string]string{
	"Nvidia L4 GPU": "L4 22", "Nvidia Tesla A100 GPU": "A100 40", "Nvidia Tesla A100 80GB GPU": "A100 80", "Nvidia H100 80GB GPU": "H100 80",
}

func gpuPart(g market.GPU) string { return fmt.Sprintf("%s %d", g.Name, g.MemoryMiB>>10) }

// part names a price: of one core, one GiB or one GPU in a region. A GPU's family is its name in gpuParts.
type part struct {
	region, family string
	memory, spot   bool
}

type rate struct {
	price market.USD
	from  time.Time
}

// Read reads a price list, plain or compressed.
func Read(r io.Reader) (*List, error) {
	plain, err := decompress.Reader(r)
	if err != nil {
		return nil, fmt.Errorf("price list: %w", err)
	}
	list, rates := &List{}, map[part]rate{}
	for pages := json.NewDecoder(plain); ; {
		var page struct {
			SKUs []sku `json:"skus"`
		}
		err := pages.Decode(&page)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("price list: %w", err)
		}
		for i := range page.SKUs {
			if err := list.add(&page.SKUs[i], rates); err != nil {
				return nil, fmt.Errorf("price list: SKU %s (%s): %w", page.SKUs[i].ID, page.SKUs[i].Description, err)
			}
		}
	}
	if len(rates) == 0 {
		return nil, fmt.Errorf("price list: none of its %d SKUs is a core or memory of a known family", list.SKUs)
	}
	list.rates = rates
	list.compose(rates)
	return list, nil
}

// add records the prices of a SKU.
func (l *List) add(s *sku, rates map[part]rate) error {
	l.SKUs++
	name, memory, known := partOf(s)
	if !known {
		l.Ignored++
		return nil
	}
	if len(s.Pricing) != 1 || len(s.Pricing[0].Expression.Tiers) == 0 {
		return errors.New("want one price")
	}
	pricing := s.Pricing[0]
	unit := "h"
	if memory {
		unit = "GiBy.h"
	}
	if pricing.Expression.Unit != unit {
		return fmt.Errorf("it is sold per %s, want %s", pricing.Expression.Unit, unit)
	}
	tier := pricing.Expression.Tiers[len(pricing.Expression.Tiers)-1].Price // earlier ones are a free tier
	if tier.Currency != "" && tier.Currency != "USD" {
		return fmt.Errorf("its price is in %s; ask for USD", tier.Currency)
	}
	whole, err := strconv.ParseInt("0"+tier.Units, 10, 32)
	if err != nil || tier.Nanos < 0 || tier.Nanos >= int64(market.Dollar) {
		return fmt.Errorf("a price of %q units and %d nanos", tier.Units, tier.Nanos)
	}
	price := rate{market.USD(whole)*market.Dollar + market.USD(tier.Nanos), pricing.Effective.UTC()}
	for _, region := range s.Regions {
		rates[part{region, name, memory, s.Category.Usage == "Preemptible"}] = price
	}
	return nil
}

// partOf returns the family of a SKU for cores or memory.
func partOf(s *sku) (name string, memory, known bool) {
	if s.Category.Family != "Compute" || s.Category.Usage != "OnDemand" && s.Category.Usage != "Preemptible" {
		return "", false, false
	}
	what, _, ok := strings.Cut(s.Description, " running in ")
	if !ok {
		return "", false, false
	}
	what = strings.TrimPrefix(what, "Spot ")
	what = strings.TrimPrefix(what, "Preemptible ")
	if gpu, is := gpuParts[strings.TrimSuffix(what, " attached to Spot Preemptible VMs")]; is {
		return gpu, false, true
	}
	for name, f := range families {
		switch what {
		case f.cores:
			return name, false, true
		case f.memory:
			return name, true, true
		}
	}
	return "", false, false
}

// compose composes the machine types from the parts.
func (l *List) compose(rates map[part]rate) {
	for p := range rates {
		if _, ok := rates[part{p.region, p.family, true, false}]; p.memory || p.spot || !ok {
			continue
		}
		f := families[p.family]
		for shape, perCore := range f.shapes {
			for _, cores := range f.sizes {
				o, _ := l.Offer(p.region, market.InstanceType{Name: fmt.Sprintf("%s-%s-%d", p.family, shape, cores), VCPU: cores,
					MemoryMiB: int64(perCore * float64(cores) * 1024)})
				l.Offers = append(l.Offers, o)
			}
		}
	}
	slices.SortFunc(l.Offers, func(a, b Offer) int {
		if order := strings.Compare(a.Region, b.Region); order != 0 {
			return order
		}
		return strings.Compare(a.Type.Name, b.Type.Name)
	})
}

// Offer returns the price of a machine type in a region from its shape. It returns false if the list has no price for
// the family or GPUs there, or if the type is not sold by cores, memory and GPUs alone: it has no GPUs, and its name is
// not FAMILY-SHAPE-CORES.
func (l *List) Offer(region string, t market.InstanceType) (Offer, bool) {
	parts := strings.Split(t.Name, "-")
	if len(parts) != 3 || t.GPU.Count == 0 && parts[2] != strconv.Itoa(t.VCPU) || t.VCPU < 1 || t.MemoryMiB < 1 {
		return Offer{}, false
	}
	price := func(spot bool) (sum rate, ok bool) {
		core, known := l.rates[part{region, parts[0], false, spot}]
		memory, both := l.rates[part{region, parts[0], true, spot}]
		if !known || !both {
			return rate{}, false
		}
		sum = rate{machinePrice(core.price, memory.price, t.VCPU, t.MemoryMiB), laterOf(core.from, memory.from)}
		if t.GPU.Count > 0 {
			each, priced := l.rates[part{region, gpuPart(t.GPU), false, spot}]
			if !priced {
				return rate{}, false
			}
			sum = rate{sum.price + each.price*market.USD(t.GPU.Count), laterOf(sum.from, each.from)}
		}
		return sum, true
	}
	onDemand, known := price(false)
	if !known {
		return Offer{}, false
	}
	t.Arch, t.OnDemand = families[parts[0]].arch, onDemand.price
	o := Offer{Region: region, Type: t}
	if spot, sold := price(true); sold {
		o.Spot, o.SpotFrom = spot.price, spot.from
	}
	return o, true
}

// Prices returns the Spot prices as histories, each from its start and once more at the time at which the list was read. Compute Engine's
// prices apply to a region: in the pools its name stands for the zone, too.
func (l *List) Prices(read time.Time) []trace.Market {
	var markets []trace.Market
	for _, o := range l.Offers {
		if o.Spot == 0 {
			continue
		}
		points := []market.PricePoint{{At: o.SpotFrom, Price: o.Spot}}
		if read.After(o.SpotFrom) {
			points = append(points, market.PricePoint{At: read.UTC(), Price: o.Spot})
		}
		markets = append(markets, trace.Market{
			Pool:    market.Pool{Provider: Provider, Region: o.Region, Zone: o.Region, Type: o.Type.Name, Class: market.Spot},
			History: market.NewHistory(points),
		})
	}
	return markets
}

// WriteCatalog writes the types with their on-demand prices in the form that market.ReadCatalog reads.
func (l *List) WriteCatalog(w io.Writer) error {
	rows := csv.NewWriter(w)
	_ = rows.Write([]string{"region", "instance_type", "vcpu", "memory_gib", "linux_ondemand_usd_hour"})
	for _, o := range l.Offers {
		_ = rows.Write([]string{o.Region, o.Type.Name, strconv.Itoa(o.Type.VCPU),
			strconv.FormatFloat(float64(o.Type.MemoryMiB)/1024, 'f', -1, 64), o.Type.OnDemand.String()})
	}
	rows.Flush() // keeps the first error
	if err := rows.Error(); err != nil {
		return fmt.Errorf("writing the catalog: %w", err)
	}
	return nil
}

// machinePrice returns an hourly price; memory is priced per GiB.
func machinePrice(core, memory market.USD, cores int, mib int64) market.USD {
	return core*market.USD(cores) + (memory*market.USD(mib)+512)/1024
}

// laterOf returns the later time.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// IsList reports whether a file is a price list, by its beginning, and returns the file from its start, unchanged: its reader unpacks it
// once. A file that cannot be unpacked is not a list.
func IsList(r io.Reader) (whole io.Reader, is bool) {
	buffered := bufio.NewReaderSize(r, firstBlock)
	packed, _ := buffered.Peek(firstBlock)
	plain, err := decompress.Reader(bytes.NewReader(packed))
	if err != nil {
		return buffered, false
	}
	defer plain.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(plain, head) // a truncated file may end early
	return buffered, bytes.HasPrefix(bytes.TrimLeft(head[:n], " \t\r\n{"), []byte(`"skus"`))
}

// firstBlock exceeds the packed size of the needed beginning: a block of Zstandard has 128 KiB.
const firstBlock = 256 << 10
