package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/provisioner"
)

// Image is the configured machine image.
type Image struct {
	State, Architecture, RootDevice string
}

// Image looks up the configured machine image.
func (a *Account) Image(ctx context.Context) (Image, error) {
	doing := "looking at the image " + a.config.ImageID
	out, err := a.api.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{a.config.ImageID}})
	if err != nil {
		return Image{}, failure(ctx, doing, err)
	}
	if len(out.Images) == 0 {
		return Image{}, fmt.Errorf("%s: %w: there is none of this name in %s", doing, provisioner.ErrInvalid, a.config.Region)
	}
	i := out.Images[0]
	return Image{string(i.State), string(i.Architecture), aws.ToString(i.RootDeviceName)}, nil
}

// Subnet is one of the configured subnets.
type Subnet struct {
	ID, Zone, VPC string
	Free          int  // addresses
	Public        bool // machines get public addresses
}

// Subnets looks up the configured subnets, ordered by zone.
func (a *Account) Subnets(ctx context.Context) ([]Subnet, error) {
	if len(a.config.Subnets) == 0 {
		return nil, nil
	}
	ids := slices.Sorted(maps.Values(a.config.Subnets))
	out, err := a.api.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids})
	if err != nil {
		return nil, failure(ctx, "looking at the subnets", err)
	}
	var found []Subnet
	for _, s := range out.Subnets {
		found = append(found, Subnet{aws.ToString(s.SubnetId), aws.ToString(s.AvailabilityZone), aws.ToString(s.VpcId), int(aws.ToInt32(s.AvailableIpAddressCount)), aws.ToBool(s.MapPublicIpOnLaunch)})
	}
	slices.SortFunc(found, func(a, b Subnet) int { return bytes.Compare([]byte(a.Zone), []byte(b.Zone)) })
	return found, nil
}

// SecurityGroup is one of the configured groups.
type SecurityGroup struct {
	ID, VPC string
	// Within reports whether machines of the group may reach each other on ports from 1024.
	Within bool
}

// SecurityGroups looks up the configured security groups.
func (a *Account) SecurityGroups(ctx context.Context) ([]SecurityGroup, error) {
	if len(a.config.SecurityGroups) == 0 {
		return nil, nil
	}
	out, err := a.api.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: a.config.SecurityGroups})
	if err != nil {
		return nil, failure(ctx, "looking at the security groups", err)
	}
	var found []SecurityGroup
	for _, g := range out.SecurityGroups {
		id := aws.ToString(g.GroupId)
		found = append(found, SecurityGroup{id, aws.ToString(g.VpcId), slices.ContainsFunc(g.IpPermissions, func(p types.IpPermission) bool {
			return reaches(p, id)
		})})
	}
	return found, nil
}

// reaches reports whether a rule allows TCP from a group on ports from 1024.
func reaches(p types.IpPermission, group string) bool {
	if protocol := aws.ToString(p.IpProtocol); protocol != "-1" && (protocol != "tcp" || aws.ToInt32(p.FromPort) > 1024 || aws.ToInt32(p.ToPort) < 65535) {
		return false
	}
	return slices.ContainsFunc(p.UserIdGroupPairs, func(pair types.UserIdGroupPair) bool { return aws.ToString(pair.GroupId) == group })
}

// Actions returns the EC2 permissions that a controller needs and that can be tested, other than ec2:RunInstances (Try) and
// ec2:TerminateInstances (MayTerminate).
func Actions() []string {
	return []string{"DescribeInstances", "DescribeInstanceTypes", "DescribeSpotInstanceRequests", "DescribeSpotPriceHistory"}
}

// May asks whether an action of Actions is allowed (DryRun). If not, the error is provisioner.ErrDenied.
func (a *Account) May(ctx context.Context, action string) error {
	dry := aws.Bool(true)
	var err error
	switch action {
	case "DescribeInstances":
		_, err = a.api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: dry})
	case "DescribeInstanceTypes":
		_, err = a.api.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: dry})
	case "DescribeSpotInstanceRequests":
		_, err = a.api.DescribeSpotInstanceRequests(ctx, &ec2.DescribeSpotInstanceRequestsInput{DryRun: dry})
	case "DescribeSpotPriceHistory":
		_, err = a.api.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: dry, MaxResults: aws.Int32(1)})
	default:
		return fmt.Errorf("%w: there is no trial of %s", provisioner.ErrInvalid, action)
	}
	return tried(ctx, "asking whether ec2:"+action+" is allowed", err)
}

// MayTerminate asks whether a machine could be terminated (DryRun).
func (a *Account) MayTerminate(ctx context.Context, id provisioner.InstanceID) error {
	_, err := a.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: aws.Bool(true), InstanceIds: []string{string(id)}})
	return tried(ctx, "asking whether "+string(id)+" could be terminated", err)
}

// tried reads the answer to a trial. Some implementations of the protocol ignore DryRun where nothing would change: that counts as a yes.
func tried(ctx context.Context, doing string, err error) error {
	if err == nil || codeOf(err) == codeWouldSucceed {
		return nil
	}
	return failure(ctx, doing, err)
}

// QuotaSpotVCPUs and QuotaOnDemandVCPUs are Service Quotas' codes for the vCPUs of running standard machines (families
// A, C, D, H, I, M, R, T and Z) of an account in a region.
const (
	QuotaSpotVCPUs     = "L-34B43A08"
	QuotaOnDemandVCPUs = "L-1216C47A"
)

// QuotaCodes are the codes for some families.
type QuotaCodes struct{ Spot, OnDemand string }

// QuotasOf returns the quotas that a machine type counts against: those of the standard families, of G and VT, or of P, of which P5 have a
// spot quota of their own. False means other quotas.
func QuotasOf(name string) (QuotaCodes, bool) {
	const onDemandP = "L-417A185B"
	switch letters := name[:max(0, strings.IndexAny(name, "0123456789"))]; {
	case letters == "g" || letters == "gr" || letters == "vt":
		return QuotaCodes{"L-3819A6DF", "L-DB2E81BA"}, true
	case strings.HasPrefix(name, "p5"):
		return QuotaCodes{"L-C4BD4855", onDemandP}, true
	case letters == "p":
		return QuotaCodes{"L-7212CCBC", onDemandP}, true
	case len(letters) > 0 && strings.Contains("acdhimrtz", letters[:1]) && letters != "dl" && letters != "inf" && letters != "trn":
		return QuotaCodes{QuotaSpotVCPUs, QuotaOnDemandVCPUs}, true
	}
	return QuotaCodes{}, false
}

// Quota asks Service Quotas, which has an endpoint of its own (empty = Amazon's), for a limit on EC2. The call is made without its SDK,
// which would be one more dependency for a single number.
func (a *Account) Quota(ctx context.Context, endpoint, code string) (float64, error) {
	doing := "asking for the quota " + code
	if endpoint == "" {
		endpoint = "https://servicequotas." + a.config.Region + ".amazonaws.com"
	}
	body, err := json.Marshal(map[string]string{"ServiceCode": "ec2", "QuotaCode": code})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.config.AttemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "ServiceQuotasV20190624.GetServiceQuota")
	who, err := a.api.Options().Credentials.Retrieve(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrDenied, err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, who, request, hex.EncodeToString(sum[:]), "servicequotas", a.config.Region, time.Now()); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	if response.StatusCode != http.StatusOK {
		kind := provisioner.ErrInvalid
		if bytes.Contains(text, []byte("AccessDenied")) || response.StatusCode == http.StatusForbidden {
			kind = provisioner.ErrDenied
		}
		return 0, fmt.Errorf("%s: %w: %s: %.200s", doing, kind, response.Status, text)
	}
	var answer struct {
		Quota struct{ Value float64 }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, provisioner.ErrInvalid, err)
	}
	return answer.Quota.Value, nil
}
