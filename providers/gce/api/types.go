package api

import (
	"context"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
)

// Types returns the shapes of a zone's machine types, sorted by name; the API has no prices, which the catalog
// (market.Catalog) must add. GPUs have Compute Engine's names, such as nvidia-l4, and their memory is unknown.
func (m *Market) Types(ctx context.Context, zone string) ([]market.InstanceType, error) {
	var found []market.InstanceType
	err := m.try(ctx, "asking for machine types in "+zone, m.config.AttemptTimeout, func(ctx context.Context) error {
		found = nil
		client, err := compute.NewMachineTypesRESTClient(ctx, m.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.List(ctx, &computepb.ListMachineTypesRequest{Project: m.config.Project, Zone: zone, MaxResults: proto.Uint32(pageSize)})
		for t, err := range pages.All() {
			if err != nil {
				return err
			}
			kind := market.InstanceType{Name: t.GetName(), VCPU: int(t.GetGuestCpus()), MemoryMiB: int64(t.GetMemoryMb()),
				Arch: architecture(t.GetArchitecture())}
			if with := t.GetAccelerators(); len(with) == 1 { // types to which GPUs can be attached list every possible one
				kind.GPU = market.GPU{Name: with[0].GetGuestAcceleratorType(), Count: int(with[0].GetGuestAcceleratorCount())}
			}
			found = append(found, kind)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b market.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// Zones returns the region's zones that are up, sorted.
func (m *Market) Zones(ctx context.Context) ([]string, error) {
	var found []string
	err := m.try(ctx, "asking for the zones of "+m.config.Region, m.config.AttemptTimeout, func(ctx context.Context) error {
		found = nil
		client, err := compute.NewZonesRESTClient(ctx, m.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.List(ctx, &computepb.ListZonesRequest{Project: m.config.Project, MaxResults: proto.Uint32(pageSize)})
		for z, err := range pages.All() {
			if err != nil {
				return err
			}
			if strings.HasPrefix(z.GetName(), m.config.Region+"-") && z.GetStatus() != "DOWN" {
				found = append(found, z.GetName())
			}
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

func architecture(word string) string {
	switch word {
	case "X86_64":
		return market.ArchX86
	case "ARM64":
		return market.ArchARM
	}
	return ""
}
