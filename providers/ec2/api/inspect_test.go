package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

func described(action, items string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><` + action + `Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">` + items + `</` + action + `Response>`
}

func TestInspect(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("DryRun") == "true" {
			if form.Get("Action") == "DescribeInstances" {
				return 403, apiError("UnauthorizedOperation", "You are not authorized to perform this operation")
			}
			return 412, apiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
		}
		switch form.Get("Action") {
		case "DescribeImages":
			return 200, described("DescribeImages", `<imagesSet><item><imageId>ami-1</imageId><imageState>available</imageState>`+
				`<architecture>x86_64</architecture><rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet>`)
		case "DescribeSubnets":
			return 200, described("DescribeSubnets", `<subnetSet>`+
				`<item><subnetId>subnet-b</subnetId><availabilityZone>us-west-1c</availabilityZone><vpcId>vpc-1</vpcId><availableIpAddressCount>3</availableIpAddressCount></item>`+
				`<item><subnetId>subnet-a</subnetId><availabilityZone>us-west-1a</availabilityZone><vpcId>vpc-1</vpcId><availableIpAddressCount>250</availableIpAddressCount></item></subnetSet>`)
		case "DescribeSecurityGroups":
			rule := func(protocol, from, to, group string) string {
				return `<item><ipProtocol>` + protocol + `</ipProtocol><fromPort>` + from + `</fromPort><toPort>` + to + `</toPort><groups><item><groupId>` + group + `</groupId></item></groups></item>`
			}
			return 200, described("DescribeSecurityGroups", `<securityGroupInfo>`+
				`<item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId><ipPermissions>`+rule("tcp", "1024", "65535", "sg-1")+`</ipPermissions></item>`+
				`<item><groupId>sg-2</groupId><vpcId>vpc-1</vpcId><ipPermissions>`+rule("tcp", "22", "22", "sg-2")+rule("-1", "0", "0", "sg-1")+`</ipPermissions></item></securityGroupInfo>`)
		}
		return 400, apiError("InvalidAction", "unknown")
	})
	cloud := s.cloud(func(c *ec2.Config) {
		c.Subnets = map[string]string{"us-west-1a": "subnet-a", "us-west-1c": "subnet-b"}
		c.SecurityGroups = []string{"sg-1", "sg-2"}
	})
	ctx := t.Context()
	if image, err := cloud.Image(ctx); err != nil || image != (ec2.Image{State: "available", Architecture: "x86_64", RootDevice: "/dev/xvda"}) {
		t.Errorf("image %+v, %v", image, err)
	}
	if subnets, err := cloud.Subnets(ctx); err != nil || len(subnets) != 2 || subnets[0].ID != "subnet-a" || subnets[0].Free != 250 || subnets[1].Free != 3 {
		t.Errorf("subnets %+v, %v", subnets, err)
	}
	if groups, err := cloud.SecurityGroups(ctx); err != nil || len(groups) != 2 || !groups[0].Within || groups[1].Within {
		t.Errorf("groups %+v, %v", groups, err)
	}
	for _, action := range ec2.Actions() {
		if err := cloud.May(ctx, action); errors.Is(err, provisioner.ErrDenied) != (action == "DescribeInstances") {
			t.Errorf("%s: %v", action, err)
		}
	}
	if err := cloud.May(ctx, "FlyToTheMoon"); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("an unknown action: %v", err)
	}
	if err := cloud.MayTerminate(ctx, "i-1"); err != nil {
		t.Error(err)
	}
}

func TestQuota(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.Header.Get("X-Amz-Target") != "ServiceQuotasV20190624.GetServiceQuota" || !strings.Contains(r.Header.Get("Authorization"), "/us-west-1/servicequotas/") {
			t.Errorf("header %v", r.Header)
		}
		if !strings.Contains(string(text), ec2.QuotaSpotVCPUs) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type":"AccessDeniedException"}`)
			return
		}
		io.WriteString(w, `{"Quota":{"QuotaCode":"L-34B43A08","Value":256.0}}`)
	}))
	defer answers.Close()
	cloud := newServer(t, always(200, "")).cloud()
	if v, err := cloud.Quota(t.Context(), answers.URL, ec2.QuotaSpotVCPUs); err != nil || v != 256 {
		t.Errorf("quota %v, %v", v, err)
	}
	if _, err := cloud.Quota(t.Context(), answers.URL, ec2.QuotaOnDemandVCPUs); !errors.Is(err, provisioner.ErrDenied) {
		t.Errorf("a refusal: %v", err)
	}
}

// TestMotoInspect inspects moto's simulated account.
func TestMotoInspect(t *testing.T) {
	endpoint := os.Getenv(motoEndpoint)
	if endpoint == "" {
		t.Skipf("%s is not set: make test-moto installs moto and sets it", motoEndpoint)
	}
	cloud := motoCloud(t, endpoint)
	image, err := cloud.Image(t.Context())
	if err != nil || image.State != "available" || image.Architecture == "" {
		t.Errorf("image %+v, %v", image, err)
	}
	for _, action := range ec2.Actions() {
		if err := cloud.May(t.Context(), action); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
}
