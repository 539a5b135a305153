package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// CapacityAdvice returns Compute Engine's forecast for a request for this many machines of a pool (advice.capacity,
// which needs the permission compute.advice.capacity). It returns false if the forecast is unknown.
func (m *Market) CapacityAdvice(ctx context.Context, p market.Pool, machines int) (provisioner.CapacityAdvice, bool, error) {
	doing := "asking for the capacity of " + p.String()
	if p.Provider != Provider || p.Region != m.config.Region || p.Class != market.Spot {
		return provisioner.CapacityAdvice{}, false, fmt.Errorf("%s: %w: it is no Spot pool of Compute Engine in %s", doing, provisioner.ErrInvalid, m.config.Region)
	}
	var answer *computepb.CapacityAdviceResponse
	err := m.try(ctx, doing, m.config.AttemptTimeout, func(ctx context.Context) (err error) {
		answer, err = m.advice.Capacity(ctx, &computepb.CapacityAdviceRpcRequest{
			Project: m.config.Project, Region: m.config.Region,
			CapacityAdviceRequestResource: &computepb.CapacityAdviceRequest{
				Size: proto.Int32(int32(machines)),
				DistributionPolicy: &computepb.CapacityAdviceRequestDistributionPolicy{
					TargetShape: proto.String("ANY_SINGLE_ZONE"),
					Zones:       []*computepb.CapacityAdviceRequestDistributionPolicyZoneConfiguration{{Zone: proto.String("zones/" + p.Zone)}},
				},
				InstanceFlexibilityPolicy: &computepb.CapacityAdviceRequestInstanceFlexibilityPolicy{
					InstanceSelections: map[string]*computepb.CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection{
						"machines": {MachineTypes: []string{p.Type}}},
				},
				InstanceProperties: &computepb.CapacityAdviceRequestInstanceProperties{
					Scheduling: &computepb.CapacityAdviceRequestInstancePropertiesScheduling{ProvisioningModel: proto.String("SPOT")}},
			},
		})
		return err
	})
	if err != nil || len(answer.GetRecommendations()) == 0 {
		return provisioner.CapacityAdvice{}, false, err
	}
	scores := answer.GetRecommendations()[0].GetScores()
	if scores == nil || scores.Obtainability == nil {
		return provisioner.CapacityAdvice{}, false, nil
	}
	a := provisioner.CapacityAdvice{Obtainability: scores.GetObtainability()}
	if text := scores.GetEstimatedUptime(); text != "" {
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
		if err != nil || seconds < 0 || seconds > 1e9 {
			return provisioner.CapacityAdvice{}, false, fmt.Errorf("%s: %w: an uptime of %q", doing, provisioner.ErrInvalid, text)
		}
		a.Uptime = time.Duration(seconds * float64(time.Second))
	}
	return a, true, nil
}
