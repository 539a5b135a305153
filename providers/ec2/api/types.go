package api

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/market"
)

// typesChunk is the maximum number of types per call.
const typesChunk = 100

// Types returns the shapes of the named types, sorted by name; without names, of all types of the region. A name that EC2 does not know
// gives provisioner.ErrInvalid. This call returns no prices: OnDemand is 0, and a catalog (market.Catalog) must fill it in. GPU names are
// EC2's.
func (m *Market) Types(ctx context.Context, names ...string) ([]market.InstanceType, error) {
	wanted := make([]types.InstanceType, 0, len(names))
	for _, name := range names {
		wanted = append(wanted, types.InstanceType(name))
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var inputs []*ec2.DescribeInstanceTypesInput
	for chunk := range slices.Chunk(wanted, typesChunk) {
		inputs = append(inputs, &ec2.DescribeInstanceTypesInput{InstanceTypes: chunk})
	}
	if len(wanted) == 0 {
		inputs = append(inputs, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(typesChunk)})
	}
	var found []market.InstanceType
	for _, in := range inputs {
		pages := ec2.NewDescribeInstanceTypesPaginator(m.api, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, failure(ctx, "asking for instance types", err)
			}
			for i := range page.InstanceTypes {
				found = append(found, typeOf(&page.InstanceTypes[i]))
			}
		}
	}
	slices.SortFunc(found, func(a, b market.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// nvidia is the only maker of GPUs that programs can request: images have its drivers.
const nvidia = "NVIDIA"

func typeOf(i *types.InstanceTypeInfo) market.InstanceType {
	t := market.InstanceType{Name: string(i.InstanceType)}
	if i.VCpuInfo != nil {
		t.VCPU = int(aws.ToInt32(i.VCpuInfo.DefaultVCpus))
	}
	if i.MemoryInfo != nil {
		t.MemoryMiB = aws.ToInt64(i.MemoryInfo.SizeInMiB)
	}
	if i.ProcessorInfo != nil {
		t.Arch = archOf(i.ProcessorInfo.SupportedArchitectures)
	}
	if i.GpuInfo != nil && len(i.GpuInfo.Gpus) == 1 { // no type has several models
		if g := i.GpuInfo.Gpus[0]; aws.ToString(g.Manufacturer) == nvidia {
			t.GPU = market.GPU{Name: aws.ToString(g.Name), Count: int(aws.ToInt32(g.Count))} // fractions of a GPU count as 0
			if g.MemoryInfo != nil {
				t.GPU.MemoryMiB = int64(aws.ToInt32(g.MemoryInfo.SizeInMiB))
			}
		}
	}
	return t
}

// archOf picks the architecture of our binary; old types can also run 32 bits.
func archOf(supported []types.ArchitectureType) string {
	for _, arch := range []types.ArchitectureType{types.ArchitectureTypeX8664, types.ArchitectureTypeArm64} {
		if slices.Contains(supported, arch) {
			return string(arch)
		}
	}
	return ""
}
