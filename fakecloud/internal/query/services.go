package query

import (
	"github.com/tierml/tierml/fakecloud/internal/region"
)

// This file answers for STS and Service Quotas, which clients ask before they launch.

// stsVersion is the API version of STS, which speaks the same protocol as EC2.
const stsVersion = "2011-06-15"

var stsActions = map[string]action{"GetCallerIdentity": getCallerIdentity}

// getCallerIdentity knows one account and its root user.
func getCallerIdentity(c *call) (answer, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	v := new(callerIdentity)
	v.Result.ARN, v.Result.User, v.Result.Account = "arn:aws:iam::"+Account+":root", Account, Account
	return v, nil
}

type callerIdentity struct {
	Namespace string `xml:"xmlns,attr"`
	Result    struct {
		ARN     string `xml:"Arn"`
		User    string `xml:"UserId"`
		Account string
	} `xml:"GetCallerIdentityResult"`
	RequestID string `xml:"ResponseMetadata>RequestId"`
}

func (v *callerIdentity) stamp(requestID string) {
	v.Namespace, v.RequestID = "https://sts.amazonaws.com/doc/"+stsVersion+"/", requestID
}

// quota is a limit of the account. On AWS it counts vCPUs, here it counts machines, as --spot-limit does.
type quota struct {
	ServiceCode  string
	ServiceName  string
	QuotaArn     string
	QuotaCode    string
	QuotaName    string
	Value        float64
	Unit         string
	Adjustable   bool
	GlobalQuota  bool
	QuotaApplied string `json:"QuotaAppliedAtLevel"`
}

// noLimit is the value of a quota without a limit.
const noLimit = 1e6

func quotas(r *region.Region) []quota {
	limits := r.Limits()
	one := func(code, name string, limit int) quota {
		q := quota{"ec2", "Amazon Elastic Compute Cloud (Amazon EC2)", "arn:aws:servicequotas:" + r.Name() + ":" + Account + ":ec2/" + code,
			code, name, float64(limit), "None", false, false, "ACCOUNT"}
		if limit == 0 {
			q.Value = noLimit
		}
		return q
	}
	return []quota{
		one("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", limits.OnDemandInstances),
		one("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", limits.SpotInstances),
		one("L-DB2E81BA", "Running On-Demand G and VT instances", limits.OnDemandInstances),
		one("L-3819A6DF", "All G and VT Spot Instance Requests", limits.SpotInstances),
		one("L-417A185B", "Running On-Demand P instances", limits.OnDemandInstances),
		one("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", limits.SpotInstances),
		one("L-C4BD4855", "All P5 Spot Instance Requests", limits.SpotInstances),
	}
}

// quotaQuestion is the body of both calls.
type quotaQuestion struct {
	ServiceCode, QuotaCode, NextToken, ContextId, QuotaAppliedAtLevel string
	MaxResults                                                        int
}

func askQuotas(r *region.Region, body []byte) (q quotaQuestion, list []quota, err error) {
	if err := strictly(body, &q); err != nil {
		return q, nil, region.Errorf("SerializationException", "%v", err)
	}
	if q.ServiceCode != "ec2" {
		return q, nil, region.Errorf("NoSuchResourceException", "The request failed because the specified service %q does not exist.", q.ServiceCode)
	}
	return q, quotas(r), nil
}

func listQuotas(r *region.Region, body []byte) (any, error) {
	_, list, err := askQuotas(r, body)
	return map[string]any{"Quotas": list}, err
}

func getQuota(r *region.Region, body []byte) (any, error) {
	q, list, err := askQuotas(r, body)
	for _, one := range list {
		if one.QuotaCode == q.QuotaCode {
			return map[string]any{"Quota": one}, nil
		}
	}
	if err == nil {
		err = region.Errorf("NoSuchResourceException", "The request failed because the specified quota %q does not exist.", q.QuotaCode)
	}
	return nil, err
}
