package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner"
)

// keyLife is the longest time for which credentials of a role can assume another role: AWS's limit for role chaining.
const keyLife = 3600 // seconds

// notInSession matches what a session's name may not contain.
var notInSession = pattern.Of(`[^\w+=,.@-]+`)

// RunKeys returns credentials of Config.StoreRole that are limited to one run's objects, which are below a folder. False: no role is
// configured.
func (c *Cloud) RunKeys(ctx context.Context, run string, folder location.Place) (keys blob.Keys, ok bool, err error) {
	return runKeys(ctx, c.sts, c.config.StoreRole, run, folder)
}

// StoreRole is the ARN of a role whose credentials a provider without EC2 machines gives to runs, using the SDK's default chain.
type StoreRole struct{ Region, ARN string }

// RunKeys does what Cloud.RunKeys does.
func (r StoreRole) RunKeys(ctx context.Context, run string, folder location.Place) (keys blob.Keys, ok bool, err error) {
	if r.ARN == "" || folder.Scheme() != "s3" {
		return keys, false, nil
	}
	c := Config{Region: r.Region}.withDefaults()
	sdk, err := loadSDK(ctx, c, newHTTPClient(c))
	if err != nil {
		return keys, true, err
	}
	defer sdk.HTTPClient.(*http.Client).CloseIdleConnections()
	return runKeys(ctx, sts.NewFromConfig(sdk), r.ARN, run, folder)
}

func runKeys(ctx context.Context, service *sts.Client, role, run string, folder location.Place) (keys blob.Keys, ok bool, err error) {
	if role == "" || folder.Scheme() != "s3" {
		return keys, false, nil
	}
	_, partition, _ := strings.Cut(role, ":")
	partition, _, _ = strings.Cut(partition, ":")
	policy, err := SessionPolicy(partition, folder)
	if err != nil {
		return keys, true, err
	}
	session := notInSession().ReplaceAllString(run, "-")
	out, err := service.AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: &role, RoleSessionName: aws.String(session[:min(len(session), 64)]), Policy: &policy, DurationSeconds: aws.Int32(keyLife),
	})
	if err != nil {
		return keys, true, failure(ctx, "getting credentials for the run's machines", err)
	}
	if out.Credentials == nil {
		return keys, true, fmt.Errorf("getting credentials for the run's machines: %w: the answer has none", provisioner.ErrTemporary)
	}
	k := out.Credentials
	return blob.Keys{AccessKeyID: aws.ToString(k.AccessKeyId), SecretAccessKey: aws.ToString(k.SecretAccessKey), SessionToken: aws.ToString(k.SessionToken),
		Expires: aws.ToTime(k.Expiration)}, true, nil
}

// statement is an IAM policy statement.
type statement struct {
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string `json:",omitempty"`
}

// SessionPolicy narrows a role to what one run's machines do: read the run's folder and data/, write parts of its checkpoints, and store
// the state and logs of its programs. The role's own policy allows the same for all runs; AWS allows what both allow.
func SessionPolicy(partition string, folder location.Place) (string, error) {
	bucket := "arn:" + partition + ":s3:::" + folder.Bucket()
	prefix := strings.Trim(folder.Key(), "/")
	if strings.ContainsAny(prefix, "*?$") { // wildcards and variables of policies
		return "", fmt.Errorf("%w: the folder %s has one of * ? $ in its name, which mean something else in a policy", provisioner.ErrInvalid, folder)
	}
	below := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, bucket+"/"+prefix+"/"+name)
		}
		return all
	}
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []statement{
		{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{bucket},
			Condition: map[string]map[string][]string{"StringLike": {"s3:prefix": {prefix + "/*", "data/*"}}}},
		{Effect: "Allow", Action: []string{"s3:GetObject"}, Resource: append(below("*"), bucket+"/data/*")},
		{Effect: "Allow", Action: []string{"s3:PutObject", "s3:AbortMultipartUpload"},
			Resource: below("clock-*/*.rows", "program/state/*", "program/logs/*")},
		{Effect: "Allow", Action: []string{"s3:DeleteObject"}, Resource: below("program/state/*")},
	}})
	return string(text), err
}
