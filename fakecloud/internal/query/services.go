package query

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// This file implements STS and Service Quotas, which clients query before they launch.

// stsVersion is the API version of STS, which speaks the same protocol as EC2.
const stsVersion = "2011-06-15"

var stsActions = map[string]action{"GetCallerIdentity": getCallerIdentity, "AssumeRole": assumeRole}

// Limits of AssumeRole.
const (
	leastSession = 15 * time.Minute
	mostSession  = 12 * time.Hour
	mostPolicy   = 2048 // characters
)

// assumeRole returns credentials for any role of the account. They have no use here, where signatures are not checked; the session policy
// must be valid JSON.
func assumeRole(c *call) (answer, error) {
	role, session, policy := c.required("RoleArn"), c.required("RoleSessionName"), c.text("Policy")
	life := time.Duration(c.number("DurationSeconds", 3600)) * time.Second
	if err := c.ready(); err != nil {
		return nil, err
	}
	name, found := strings.CutPrefix(role, "arn:aws:iam::")
	_, name, _ = strings.Cut(name, ":role/")
	switch {
	case !found || name == "":
		return nil, region.Errorf("ValidationError", "%s is invalid", role)
	case life < leastSession || life > mostSession:
		return nil, region.Errorf("ValidationError", "The requested DurationSeconds is not between %v and %v", leastSession, mostSession)
	case len(policy) > mostPolicy:
		return nil, region.Errorf("ValidationError", "1 validation error detected: Value at 'policy' failed to satisfy constraint: Member must have length less than or equal to %d", mostPolicy)
	case policy != "" && !json.Valid([]byte(policy)):
		return nil, region.Errorf("MalformedPolicyDocument", "Syntax errors in policy.")
	}
	v := new(assumedRole)
	secret := make([]byte, 48)
	rand.Read(secret) // never fails (crypto/rand)
	k := &v.Result.Credentials
	k.ID, k.Secret = "ASIA"+strings.ToUpper(hex.EncodeToString(secret[:8])), hex.EncodeToString(secret[8:28])
	k.Token, k.Expires = hex.EncodeToString(secret[28:]), time.Now().Add(life).UTC().Format(time.RFC3339)
	v.Result.User.ID, v.Result.User.ARN = "AROA00000000000000000:"+session, "arn:aws:sts::"+Account+":assumed-role/"+name+"/"+session
	return v, nil
}

type assumedRole struct {
	Namespace string `xml:"xmlns,attr"`
	Result    struct {
		Credentials struct {
			ID      string `xml:"AccessKeyId"`
			Secret  string `xml:"SecretAccessKey"`
			Token   string `xml:"SessionToken"`
			Expires string `xml:"Expiration"`
		}
		User struct {
			ID  string `xml:"AssumedRoleId"`
			ARN string `xml:"Arn"`
		} `xml:"AssumedRoleUser"`
	} `xml:"AssumeRoleResult"`
	RequestID string `xml:"ResponseMetadata>RequestId"`
}

func (v *assumedRole) stamp(requestID string) {
	v.Namespace, v.RequestID = "https://sts.amazonaws.com/doc/"+stsVersion+"/", requestID
}

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

// quota is a limit of the account. On AWS it counts vCPUs, here it counts machines, like the setting spot-limit.
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
