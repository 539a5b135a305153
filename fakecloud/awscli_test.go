package fakecloud

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// awsProgram is Debian's; a version manager may put another one before it in the path.
const awsProgram = "/usr/bin/aws"

// TestAWSCommandLine uses the API through a foreign client.
func TestAWSCommandLine(t *testing.T) {
	if _, err := os.Stat(awsProgram); err != nil {
		t.Skip("the AWS command line is not installed: apt-get install awscli")
	}
	c := run(t, nil)
	home := t.TempDir()
	service := "ec2"
	aws := func(args ...string) (map[string]any, string) {
		t.Helper()
		cmd := exec.Command(awsProgram, append([]string{"--endpoint-url", c.Endpoint(), "--output", "json", service}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any",
			"AWS_DEFAULT_REGION=us-west-1", "AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "AWS_EC2_METADATA_DISABLED=true"}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && stderr.Len() == 0 {
			t.Fatalf("aws %v: %v", args, err)
		}
		var v map[string]any
		if len(out) > 0 {
			if err := json.Unmarshal(out, &v); err != nil {
				t.Fatalf("aws %v: %s: %v", args, out, err)
			}
		}
		return v, strings.TrimSpace(stderr.String())
	}
	get := func(v any, path ...any) any {
		t.Helper()
		for _, p := range path {
			switch key := p.(type) {
			case string:
				v = v.(map[string]any)[key]
			case int:
				list, _ := v.([]any)
				if key >= len(list) {
					return nil
				}
				v = list[key]
			}
		}
		return v
	}
	launch := []string{"run-instances", "--image-id", "ami-12345678", "--instance-type", "c3.xlarge", "--count", "2", "--user-data", "hello",
		"--instance-market-options", "MarketType=spot,SpotOptions={MaxPrice=0.10}", "--client-token", "once",
		"--tag-specifications", "ResourceType=instance,Tags=[{Key=job,Value=demo}]"}

	made, stderr := aws(launch...)
	if stderr != "" || len(get(made, "Instances").([]any)) != 2 {
		t.Fatalf("run-instances: %v %s", made, stderr)
	}
	id := get(made, "Instances", 0, "InstanceId").(string)
	request := get(made, "Instances", 0, "SpotInstanceRequestId").(string)
	if again, _ := aws(launch...); get(again, "Instances", 0, "InstanceId") != id {
		t.Errorf("the same token: %v", again)
	}
	if _, stderr := aws(append(launch, "--ebs-optimized")...); !strings.Contains(stderr, "(IdempotentParameterMismatch)") {
		t.Errorf("the same token with other parameters: %s", stderr)
	}
	if v, stderr := aws("describe-spot-price-history", "--instance-types", "c3.xlarge", "--product-descriptions", "Linux/UNIX"); get(v, "SpotPriceHistory", 0, "SpotPrice") != "0.050000" ||
		get(v, "SpotPriceHistory", 1) != nil {
		t.Errorf("describe-spot-price-history: %v %s", v, stderr)
	}
	if _, stderr := aws("create-tags", "--resources", id, "--tags", "Key=Name,Value=first"); stderr != "" {
		t.Errorf("create-tags: %s", stderr)
	}
	v, stderr := aws("describe-instances", "--filters", "Name=tag:Name,Values=first", "Name=instance-lifecycle,Values=spot")
	if get(v, "Reservations", 0, "Instances", 0, "InstanceId") != id || get(v, "Reservations", 0, "Instances", 1) != nil {
		t.Errorf("describe-instances: %v %s", v, stderr)
	}
	v, stderr = aws("terminate-instances", "--instance-ids", id)
	if get(v, "TerminatingInstances", 0, "InstanceId") != id || get(v, "TerminatingInstances", 0, "CurrentState", "Name") == "running" {
		t.Errorf("terminate-instances: %v %s", v, stderr)
	}
	v, stderr = aws("describe-spot-instance-requests", "--spot-instance-request-ids", request)
	if get(v, "SpotInstanceRequests", 0, "Status", "Code") != "instance-terminated-by-user" {
		t.Errorf("describe-spot-instance-requests: %v %s", v, stderr)
	}
	told, err := time.Parse(time.RFC3339, get(v, "SpotInstanceRequests", 0, "Status", "UpdateTime").(string))
	if err != nil || !told.Equal(c.instance(id).Ended) {
		t.Errorf("the end is reported as %v, it was %v", told, c.instance(id).Ended)
	}
	if _, stderr := aws("terminate-instances", "--instance-ids", "i-0123456789abcdef0"); !strings.Contains(stderr, "(InvalidInstanceID.NotFound)") {
		t.Errorf("unknown instance: %s", stderr)
	}
	service = "pricing"
	v, stderr = aws("get-products", "--service-code", "AmazonEC2", "--filters", "Type=TERM_MATCH,Field=instanceType,Value=c3.xlarge",
		"Type=TERM_MATCH,Field=operatingSystem,Value=Linux", "--page-size", "1")
	if list, _ := get(v, "PriceList").([]any); len(list) != 1 || !strings.Contains(list[0].(string), `"pricePerUnit":{"USD":"0.2390000000"}`) {
		t.Errorf("get-products: %v %s", v, stderr)
	}
	if _, stderr := aws("get-products", "--service-code", "AmazonS3"); !strings.Contains(stderr, "(NotFoundException)") {
		t.Errorf("the prices of another service: %s", stderr)
	}
}
