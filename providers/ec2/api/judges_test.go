package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
)

// text writes a text into an object.
func text(words string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, words)
		return err
	}
}

// ofRun are objects that machines of a run read, write and replace.
var ofRun = []string{"clock-3/part-1.rows", "program/state/rank-0/claim.json", "program/state/rank-0/manifests/1.json", "program/logs/rank-0/1.log"}

// moto's own enforcement of IAM checks the policy of one run's credentials: what the run's machines do is allowed, and nothing of another
// run's objects can be read, written or removed. moto ignores policies of sessions, so the role itself has this one; and it does not know
// s3:prefix, so it denies every list.
func TestMotoRunKeys(t *testing.T) {
	endpoint := os.Getenv(motoEndpoint)
	if endpoint == "" {
		t.Skipf("%s is not set: make test-moto starts a moto", motoEndpoint)
	}
	send := func(method, path, service, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, endpoint+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=setup/20260101/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
		if service == "iam" {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
		}
	}
	const at = "s3://tierml-runs/installation/runs/"
	folder, err := location.Parse(at + "mine-1")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := ec2.SessionPolicy("aws", folder)
	if err != nil {
		t.Fatal(err)
	}
	send("POST", "/", "iam", url.Values{"Action": {"CreateRole"}, "RoleName": {"store"}, "AssumeRolePolicyDocument": {"{}"}}.Encode())
	send("POST", "/", "iam", url.Values{"Action": {"PutRolePolicy"}, "RoleName": {"store"}, "PolicyName": {"run"}, "PolicyDocument": {policy}}.Encode())
	send("PUT", "/tierml-runs", "s3", "")
	for _, run := range []string{"mine-1", "mine-10", "theirs-1"} {
		for _, name := range append(ofRun, "manifest-3.json") {
			send("PUT", "/tierml-runs/installation/runs/"+run+"/"+name, "s3", "before")
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", "setup")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "setup")
	keys, ok, err := ec2.StoreRole{Region: "us-east-1", ARN: "arn:aws:iam::123456789012:role/store"}.RunKeys(t.Context(), "mine-1", folder)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	send("POST", "/moto-api/reset-auth", "s3", "0")
	defer send("POST", "/moto-api/reset-auth", "s3", "1000000000")
	blob.UseKeys(func() (blob.Keys, error) { return keys, nil })
	defer blob.UseKeys(nil)
	tries, had := 0, 0
	for _, run := range []string{"mine-1", "mine-10", "theirs-1"} {
		for _, name := range ofRun {
			object := at + run + "/" + name + "?region=us-east-1&endpoint=" + endpoint
			read, err := blob.Open(t.Context(), object)
			if err == nil {
				_ = read.Close()
			}
			done := map[string]error{"read": err, "written": blob.Write(t.Context(), object, text("after"))}
			if strings.HasPrefix(name, "program/state") {
				done["removed"] = blob.Remove(t.Context(), object)
			}
			for what, err := range done {
				if run == "mine-1" {
					if err != nil {
						t.Errorf("%s of the own run cannot be %s: %v", name, what, err)
					}
					continue
				}
				if tries++; err == nil {
					had++
					t.Errorf("%s of %s was %s", name, run, what)
				}
			}
		}
	}
	if manifest := at + "mine-1/manifest-3.json?region=us-east-1&endpoint=" + endpoint; blob.Remove(t.Context(), manifest) == nil {
		t.Error("machines can remove the run's manifest")
	}
	t.Logf("%d of %d tries on another run's objects succeeded", had, tries)
}

// versitygw checks the rights of one run: a user has what the policy of a run's credentials allows, without its condition on lists, which
// bucket policies there do not support, and therefore without lists. Nothing of another run's objects can be listed, read, written or
// removed.
func TestVersityGWKeepsRunsApart(t *testing.T) {
	endpoint := os.Getenv("TIERML_VERSITYGW_ENDPOINT")
	if endpoint == "" {
		t.Skip("TIERML_VERSITYGW_ENDPOINT is not set: make test-stores starts a versitygw")
	}
	const at = "s3://tierml/installation/runs/"
	folder, err := location.Parse(at + "mine-1")
	if err != nil {
		t.Fatal(err)
	}
	session, err := ec2.SessionPolicy("aws", folder)
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Version   string
		Statement []map[string]any
	}
	if err := json.Unmarshal([]byte(session), &policy); err != nil {
		t.Fatal(err)
	}
	if policy.Statement[0]["Condition"] == nil {
		t.Fatalf("the first statement is not about lists: %s", session)
	}
	policy.Statement = policy.Statement[1:]
	for _, s := range policy.Statement {
		s["Principal"] = map[string]any{"AWS": []string{"run"}}
	}
	applied, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	root := s3.New(s3.Options{BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")})
	if _, err := root.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("tierml"), Policy: aws.String(string(applied))}); err != nil {
		t.Fatal(err)
	}
	of := func(run, name string) string { return at + run + "/" + name + "?region=us-east-1&endpoint=" + endpoint }
	others := []string{"mine-10", "theirs-1"}
	for _, run := range append(others, "mine-1") {
		for _, name := range ofRun {
			if err := blob.Write(t.Context(), of(run, name), text("before")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "run")
	calls := map[string]func(ctx context.Context, object string) error{
		"read": func(ctx context.Context, object string) error {
			r, err := blob.Open(ctx, object)
			if err == nil {
				_, err = io.ReadAll(r)
				_ = r.Close()
			}
			return err
		},
		"written": func(ctx context.Context, object string) error { return blob.Write(ctx, object, text("after")) },
	}
	for _, name := range ofRun {
		for what, call := range calls {
			if err := call(t.Context(), of("mine-1", name)); err != nil {
				t.Errorf("%s of the own run cannot be %s: %v", name, what, err)
			}
		}
	}
	calls["removed"] = blob.Remove
	calls["listed"] = func(ctx context.Context, object string) error {
		_, err := blob.List(ctx, object)
		return err
	}
	tries := 0
	for _, run := range others {
		for _, name := range ofRun {
			for what, call := range calls {
				if tries++; call(t.Context(), of(run, name)) == nil {
					t.Errorf("%s of %s was %s", name, run, what)
				}
			}
		}
	}
	t.Logf("%d tries on other runs' objects", tries)
}
