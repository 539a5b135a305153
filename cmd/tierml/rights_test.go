package main

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/tierml/tierml/internal/location"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	gce "github.com/tierml/tierml/providers/gce/api"
)

// use is one kind of access to a bucket.
type use struct {
	verb string // get, list, put, replace, delete, abort
	name string // of the object; of a list, the prefix
}

// right is what one statement of a module's policy allows.
type right struct {
	name   string
	allows func(action string, u use) bool
}

// actions of a use, all of which must be allowed. Replacing an object in Cloud Storage requires the right to delete it, and aborting an
// upload there requires none: cloud.google.com/storage/docs/access-control/iam-permissions.
var actions = map[string]map[string][]string{
	"aws": {"get": {"s3:GetObject"}, "list": {"s3:ListBucket"}, "put": {"s3:PutObject"}, "replace": {"s3:PutObject"}, "delete": {"s3:DeleteObject"},
		"abort": {"s3:AbortMultipartUpload"}},
	"gcp": {"get": {"storage.objects.get"}, "list": {"storage.objects.list"}, "put": {"storage.objects.create"},
		"replace": {"storage.objects.create", "storage.objects.delete"}, "delete": {"storage.objects.delete"}, "abort": nil},
}

// googleRoles are the Google roles that the module grants on its bucket: cloud.google.com/storage/docs/access-control/iam-roles.
var googleRoles = map[string][]string{
	"roles/storage.objectViewer":  {"storage.objects.get", "storage.objects.list"},
	"roles/storage.objectCreator": {"storage.objects.create"},
	"roles/storage.objectUser":    {"storage.objects.get", "storage.objects.list", "storage.objects.create", "storage.objects.delete", "storage.objects.update"},
}

// allowed reports whether the rights suffice for a use.
func allowed(module string, rights []right, u use) bool {
	need, known := actions[module][u.verb]
	return known && !slices.ContainsFunc(need, func(action string) bool {
		return !slices.ContainsFunc(rights, func(r right) bool { return r.allows(action, u) })
	})
}

// terraformFile returns a parsed file of a module.
func terraformFile(t *testing.T, path string) *hclsyntax.Body {
	t.Helper()
	file, trouble := hclparse.NewParser().ParseHCLFile(path)
	if trouble.HasErrors() {
		t.Fatal(trouble)
	}
	return file.Body.(*hclsyntax.Body)
}

func object(names string, value cty.Value) cty.Value {
	for _, name := range slices.Backward(strings.Split(names, ".")) {
		value = cty.ObjectVal(map[string]cty.Value{name: value})
	}
	return value
}

// amazonRights returns the statements about the bucket in one of terraform/aws's policies.
func amazonRights(t *testing.T, policy string) (rights []right) {
	t.Helper()
	const bucket = "arn:aws:s3:::bucket"
	text := cty.StringVal("arn:other")
	known := &hcl.EvalContext{
		Variables: map[string]cty.Value{
			"aws_s3_bucket": object("cluster.arn", cty.StringVal(bucket)), "aws_iam_role": cty.ObjectVal(map[string]cty.Value{"machines": object("arn", text), "store": object("arn", text)}),
			"aws_security_group": object("machines.arn", text), "aws_subnet": object("zone", cty.EmptyObjectVal),
			"var":   cty.ObjectVal(map[string]cty.Value{"cluster": text, "region": text}),
			"local": cty.ObjectVal(map[string]cty.Value{"arn": text, "ec2": text, "ec2_ssm": text, "account": text}),
		},
		Functions: map[string]function.Function{"concat": stdlib.ConcatFunc},
	}
	var document struct{ Statement []statement }
	for _, block := range terraformFile(t, "../../terraform/aws/permissions.tf").Blocks {
		attribute := block.Body.Attributes[policy]
		if block.Type != "locals" || attribute == nil {
			continue
		}
		value, trouble := attribute.Expr.Value(known)
		if trouble.HasErrors() {
			t.Fatal(trouble)
		}
		encoded, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encoded, &document); err != nil {
			t.Fatal(err)
		}
	}
	return statements(t, document.Statement)
}

// statements returns those of a policy that concern the bucket.
func statements(t *testing.T, all []statement) (rights []right) {
	t.Helper()
	const bucket = "arn:aws:s3:::bucket"
	for _, s := range all {
		if !slices.ContainsFunc(s.Action, func(a string) bool { return strings.HasPrefix(a, "s3:") }) {
			continue
		}
		if s.Effect != "Allow" || len(s.Condition) > 1 || len(s.Condition) == 1 && s.Condition["StringLike"] == nil {
			t.Fatalf("this test does not know statements such as %+v", s)
		}
		rights = append(rights, right{s.Sid, func(action string, u use) bool {
			resource := bucket + "/" + u.name
			if u.verb == "list" {
				resource = bucket
			}
			like := func(patterns oneOrMore, s string) bool {
				return slices.ContainsFunc(patterns, func(p string) bool { return wildcards(p).MatchString(s) })
			}
			for key, patterns := range s.Condition["StringLike"] {
				if key != "s3:prefix" || u.verb != "list" || !like(patterns, u.name) {
					return false
				}
			}
			return slices.Contains(s.Action, action) && like(s.Resource, resource)
		}})
	}
	return rights
}

// statement is an IAM statement.
type statement struct {
	Sid, Effect      string
	Action, Resource oneOrMore
	Condition        map[string]map[string]oneOrMore
}

// oneOrMore is a string or a list of strings in JSON.
type oneOrMore []string

func (w *oneOrMore) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// wildcards are IAM's: an asterisk matches any characters, including slashes.
func wildcards(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + "$")
}

// googleRights returns what terraform/gcp's bindings on the bucket grant to an account.
func googleRights(t *testing.T, account string) (rights []right) {
	t.Helper()
	const bucket = "projects/_/buckets/bucket"
	known := &hcl.EvalContext{Variables: map[string]cty.Value{
		"google_storage_bucket": object("cluster.name", cty.StringVal("bucket")),
		"google_service_account": cty.ObjectVal(map[string]cty.Value{
			"machines": object("member", cty.StringVal("machines")), "controller": object("member", cty.StringVal("controller"))}),
	}}
	text := func(body *hclsyntax.Body, name string) string {
		value, trouble := body.Attributes[name].Expr.Value(known)
		if trouble.HasErrors() {
			t.Fatal(trouble)
		}
		return value.AsString()
	}
	for _, block := range terraformFile(t, "../../terraform/gcp/permissions.tf").Blocks {
		if block.Type != "resource" || block.Labels[0] != "google_storage_bucket_iam_member" || text(block.Body, "member") != account {
			continue
		}
		permissions, found := googleRoles[text(block.Body, "role")]
		if !found {
			t.Fatalf("this test does not know what %s may do", text(block.Body, "role"))
		}
		holds := func(string, string) bool { return true }
		for _, condition := range block.Body.Blocks {
			holds = expression(t, text(condition.Body, "expression"))
		}
		rights = append(rights, right{block.Labels[1], func(action string, u use) bool {
			resource := bucket + "/objects/" + u.name
			if action == "storage.objects.list" {
				resource = bucket
			}
			return slices.Contains(permissions, action) && holds(resource, "")
		}})
	}
	return rights
}

// expression compiles a condition of Google's IAM: CEL with a function extract, and in access boundaries the listed prefix.
func expression(t *testing.T, text string) func(resource, prefix string) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("resource", cel.MapType(cel.StringType, cel.StringType)), cel.Variable("api", cel.MapType(cel.StringType, cel.StringType)),
		cel.Function("getAttribute", cel.MemberOverload("api_get", []*cel.Type{cel.MapType(cel.StringType, cel.StringType), cel.StringType, cel.StringType}, cel.StringType,
			cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				if found, ok := args[0].(traits.Mapper).Find(args[1]); ok {
					return found
				}
				return args[2]
			}))),
		cel.Function("extract", cel.MemberOverload("string_extract", []*cel.Type{cel.StringType, cel.StringType}, cel.StringType,
			cel.BinaryBinding(func(s, template ref.Val) ref.Val {
				return types.String(extract(string(s.(types.String)), string(template.(types.String))))
			}))))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	return func(resource, prefix string) bool {
		out, _, err := program.Eval(map[string]any{"resource": map[string]string{"name": resource},
			"api": map[string]string{"storage.googleapis.com/objectListPrefix": prefix}})
		return err == nil && out.Value() == true
	}
}

// extract returns the part of a text that matches a template's name in braces:
// cloud.google.com/iam/docs/conditions-attribute-reference#extract.
func extract(s, template string) string {
	before, rest, _ := strings.Cut(template, "{")
	_, after, _ := strings.Cut(rest, "}")
	_, s, found := strings.Cut(s, before)
	if !found || after == "" {
		return s
	}
	s, _, found = strings.Cut(s, after)
	if !found {
		return ""
	}
	return s
}

// sessionRights returns what the credentials of one run allow, provided that the underlying role or account allows it, too.
func sessionRights(t *testing.T, module, run string) (rights []right) {
	t.Helper()
	folder, err := location.Parse(map[string]string{"aws": "s3", "gcp": "gs"}[module] + "://bucket/checkpoints/" + run)
	if err != nil {
		t.Fatal(err)
	}
	if module == "gcp" {
		rules, err := gce.AccessBoundary(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			holds := expression(t, rule.Condition.Expression)
			rights = append(rights, right{rule.AvailablePermissions[0], func(action string, u use) bool {
				resource, prefix := "projects/_/buckets/bucket/objects/"+u.name, ""
				if action == "storage.objects.list" {
					resource, prefix = "projects/_/buckets/bucket", u.name
				}
				role := strings.TrimPrefix(rule.AvailablePermissions[0], "inRole:")
				return slices.Contains(googleRoles[role], action) && holds(resource, prefix)
			}})
		}
		return rights
	}
	policy, err := ec2.SessionPolicy("aws", folder)
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Statement []statement }
	if err := json.Unmarshal([]byte(policy), &document); err != nil {
		t.Fatal(err)
	}
	if len(policy) > 2048 {
		t.Errorf("a session policy has at most 2048 characters, not %d", len(policy))
	}
	return statements(t, document.Statement)
}

// runOf returns the run that an object belongs to; empty = none.
func runOf(name string) string {
	rest, ok := strings.CutPrefix(name, "checkpoints/")
	run, _, below := strings.Cut(rest, "/")
	if !ok || !below {
		return ""
	}
	return run
}

// narrowed returns the rights of a role in sessions of the runs whose objects are used.
func narrowed(t *testing.T, module string, role []right) (rights []right) {
	t.Helper()
	sessions := map[string][]right{}
	for _, r := range role {
		rights = append(rights, right{r.name, func(action string, u use) bool {
			run := runOf(u.name)
			if sessions[run] == nil {
				sessions[run] = sessionRights(t, module, cmp.Or(run, "any"))
			}
			return r.allows(action, u) && slices.ContainsFunc(sessions[run], func(s right) bool { return s.allows(action, u) })
		}})
	}
	return rights
}

// machineRights returns the rights of machines to a module's installation, whatever run they work for.
func machineRights(t *testing.T, module string) []right {
	t.Helper()
	if module == "gcp" {
		return append(googleRights(t, "machines"), narrowed(t, module, googleRights(t, "controller"))...)
	}
	return append(amazonRights(t, "machines_policy"), narrowed(t, module, amazonRights(t, "store_policy"))...)
}

// With one run's credentials nothing of another run can be listed, read or written, whatever the names; nor can what no run may write.
func TestRunsReachTheirOwnObjectsOnly(t *testing.T) {
	for _, module := range []string{"aws", "gcp"} {
		own := sessionRights(t, module, "a-1")
		var names []string
		for _, other := range []string{"a-10", "a", "a-1x", "A-1", "b-1", "a-1.old"} {
			for _, rest := range []string{"", "clock-1/x.rows", "program/state/rank-0/claim.json", "program/logs/rank-0", "program/workdir-1.tar.zst", "manifest-1.json", "splits/1"} {
				names = append(names, "checkpoints/"+other+"/"+rest)
			}
		}
		names = append(names, "checkpoints/", "checkpoints", "", "program/tierml", "other/a-1/program/state/x")
		for _, verb := range []string{"get", "list", "put", "replace", "delete"} {
			for _, name := range names {
				if u := (use{verb, name}); allowed(module, own, u) {
					t.Errorf("%s: a run may %s %q", module, u.verb, u.name)
				}
			}
		}
		for _, u := range []use{{"put", "checkpoints/a-1/program/state/x"}, {"get", "checkpoints/a-1/splits/1"}, {"list", "checkpoints/a-1/program/state/"}} {
			if !allowed(module, own, u) {
				t.Errorf("%s: a run may not %s its own %s", module, u.verb, u.name)
			}
		}
	}
}

// TestRightsAreNarrow: what machines must not do with the bucket, whatever runs need.
func TestRightsAreNarrow(t *testing.T) {
	for module, rights := range map[string][]right{"aws": machineRights(t, "aws"), "gcp": machineRights(t, "gcp")} {
		for _, u := range []use{
			{"put", "program/tierml"}, {"replace", "program/tierml"}, {"delete", "program/tierml"}, {"put", "data/x"}, {"delete", "data/x"},
			{"put", "checkpoints/a-1/manifest-1.json"}, {"put", "checkpoints/a-1/splits/split-1"}, {"delete", "checkpoints/a-1/clock-1/x.rows"},
			{"replace", "checkpoints/a-1/program/workdir-1.tar.zst"}, {"delete", "checkpoints/a-1/program/workdir-1.tar.zst"},
			{"put", "other/program/state/rank-0/claim.json"},
		} {
			if allowed(module, rights, u) {
				t.Errorf("%s: machines may %s %s", module, u.verb, u.name)
			}
		}
	}
}
