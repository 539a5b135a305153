package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/location"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
)

const storeRole = "arn:aws:iam::000000000000:role/store"

func place(t *testing.T, name string) location.Place {
	t.Helper()
	p, err := location.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Credentials of a run are the role's, narrowed by a policy that names the run's folder; other stores and installations without the role
// have none, and neither has a name with wildcards, which would be wider.
func TestRunKeys(t *testing.T) {
	s := newServer(t, func(url.Values) (int, string) {
		return http.StatusOK, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>` +
			`<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-11-21T13:00:00Z</Expiration>` +
			`</Credentials></AssumeRoleResult></AssumeRoleResponse>`
	})
	cloud := s.cloud(func(c *ec2.Config) { c.StoreRole = storeRole })
	keys, ok, err := cloud.RunKeys(t.Context(), "small 1/é", place(t, "s3://bucket/checkpoints/small-1?region=us-east-1"))
	if err != nil || !ok || keys.AccessKeyID != "ASIA1" || keys.SessionToken != "t" || !keys.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v, %v, %v", keys, ok, err)
	}
	form := s.recorded()[0]
	if policy := form.Get("Policy"); form.Get("Action") != "AssumeRole" || form.Get("RoleArn") != storeRole || form.Get("RoleSessionName") != "small-1-" ||
		form.Get("DurationSeconds") != "3600" || strings.Contains(policy, "checkpoints/*") || !strings.Contains(policy, "arn:aws:s3:::bucket/checkpoints/small-1/program/state/*") {
		t.Errorf("%v", form)
	}
	if _, ok, err := cloud.RunKeys(t.Context(), "x", place(t, "gs://bucket/checkpoints/x")); ok || err != nil {
		t.Errorf("of another store: %v, %v", ok, err)
	}
	if _, _, err := cloud.RunKeys(t.Context(), "x", place(t, "s3://bucket/checkpoints/*")); err == nil {
		t.Error("a folder with a wildcard")
	}
	if _, ok, err := s.cloud().RunKeys(t.Context(), "x", place(t, "s3://bucket/checkpoints/x")); ok || err != nil {
		t.Errorf("without a role: %v, %v", ok, err)
	}
}
