package api_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// fleetRequest requests machines of three pools.
func fleetRequest(count int) provisioner.Request {
	r := spotRequest()
	r.Count = count
	for n, where := range []struct{ zone, kind string }{{"us-west-1b", "c3.large"}, {"us-west-1a", "m3.large"}} {
		c := provisioner.Choice{Pool: r.Pool, Bid: market.USD(n+1) * market.Dollar / 100}
		c.Pool.Zone, c.Pool.Type = where.zone, where.kind
		r.Or = append(r.Or, c)
	}
	return r
}

const templateAnswer = `<CreateLaunchTemplateResponse><launchTemplate><launchTemplateId>lt-1</launchTemplateId></launchTemplate></CreateLaunchTemplateResponse>`

func fleetAnswer(body string) string {
	return `<CreateFleetResponse><fleetId>fleet-1</fleetId>` + body + `</CreateFleetResponse>`
}

func fleetErrors(codes ...string) string {
	text := "<errorSet>"
	for _, code := range codes {
		text += "<item><errorCode>" + code + "</errorCode><errorMessage>words</errorMessage><lifecycle>spot</lifecycle></item>"
	}
	return text + "</errorSet>"
}

// Every field of the three calls of a fleet.
func TestFleetFields(t *testing.T) {
	s := newServer(t, byAction(map[string]string{
		"CreateLaunchTemplate": templateAnswer,
		"CreateFleet":          fleetAnswer(`<fleetInstanceSet><item><instanceIds><item>i-0a</item></instanceIds></item></fleetInstanceSet>`),
		"DeleteLaunchTemplate": `<DeleteLaunchTemplateResponse></DeleteLaunchTemplateResponse>`,
		"DescribeInstances": describeAnswer("", instance{id: "i-0a", state: "pending", lifecycle: "spot", spotRequest: "sir-1",
			tags: tagSet("tierml:token", "job-1/2", "tierml:bid", "as-requested")}),
		"DescribeSpotInstanceRequests": `<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet><item><spotInstanceRequestId>sir-1</spotInstanceRequestId>` +
			`<spotPrice>0.123456789</spotPrice></item></spotInstanceRequestSet></DescribeSpotInstanceRequestsResponse>`,
	}))
	cloud := s.cloud(func(c *ec2.Config) {
		c.Owner, c.Strategy, c.InstanceProfile = "ann", provisioner.CapacityOptimized, "worker"
		c.Subnets, c.SecurityGroups = map[string]string{"us-west-1b": "subnet-b"}, []string{"sg-1"}
		c.RootVolume = &ec2.RootVolume{Device: "/dev/xvda", SizeGiB: 20}
	})
	got, err := cloud.Launch(t.Context(), fleetRequest(17))
	if err != nil || len(got) != 1 || got[0].ID != "i-0a" || got[0].Pool != spotPool() || got[0].Bid != 123_456_789 {
		t.Fatalf("%+v, %v", got, err)
	}
	if listed, err := cloud.List(t.Context()); err != nil || len(listed) != 1 || listed[0].Bid != 123_456_789 {
		t.Errorf("listed %+v, %v", listed, err)
	}
	const name = "tierml-" + "NAME"
	calls := s.recorded()
	template := calls[0].Get("LaunchTemplateName")
	calls[0].Set("LaunchTemplateName", name)
	if calls[0].Get("ClientToken") == "" {
		t.Error("the SDK made no token for the launch template")
	}
	calls[0].Del("ClientToken")
	tags := func(prefix string) (lines string) {
		for n, pair := range [][2]string{{"tierml:cluster", "blue"}, {"tierml:token", "job-1/2"}, {"tierml:owner", "ann"},
			{"tierml:bid", "as-requested"}, {"Name", "blue"}, {"attempt", "1"}, {"job", "mf"}} {
			number := string(rune('1' + n))
			lines += prefix + ".Tag." + number + ".Key=" + pair[0] + "\n" + prefix + ".Tag." + number + ".Value=" + pair[1] + "\n"
		}
		return lines
	}
	wantForm(t, calls[0], `
		Action=CreateLaunchTemplate
		Version=2016-11-15
		LaunchTemplateName=`+name+`
		LaunchTemplateData.BlockDeviceMapping.1.DeviceName=/dev/xvda
		LaunchTemplateData.BlockDeviceMapping.1.Ebs.DeleteOnTermination=true
		LaunchTemplateData.BlockDeviceMapping.1.Ebs.Encrypted=true
		LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize=20
		LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeType=gp3
		LaunchTemplateData.IamInstanceProfile.Name=worker
		LaunchTemplateData.ImageId=ami-1
		LaunchTemplateData.InstanceInitiatedShutdownBehavior=terminate
		LaunchTemplateData.MetadataOptions.HttpEndpoint=enabled
		LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit=1
		LaunchTemplateData.MetadataOptions.HttpTokens=required
		LaunchTemplateData.MetadataOptions.InstanceMetadataTags=enabled
		LaunchTemplateData.SecurityGroupId.1=sg-1
		LaunchTemplateData.TagSpecification.1.ResourceType=spot-instances-request
		`+tags("LaunchTemplateData.TagSpecification.1")+`LaunchTemplateData.UserData=aGVsbG8=
		`+tags("TagSpecification.1")+`TagSpecification.1.ResourceType=launch-template`)
	wantForm(t, calls[1], `
		Action=CreateFleet
		Version=2016-11-15
		ClientToken=job-1/2
		LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=`+template+`
		LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1
		LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=us-west-1a
		LaunchTemplateConfigs.1.Overrides.1.InstanceType=c3.large
		LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.123456789
		LaunchTemplateConfigs.1.Overrides.2.InstanceType=c3.large
		LaunchTemplateConfigs.1.Overrides.2.MaxPrice=0.01
		LaunchTemplateConfigs.1.Overrides.2.SubnetId=subnet-b
		LaunchTemplateConfigs.1.Overrides.3.AvailabilityZone=us-west-1a
		LaunchTemplateConfigs.1.Overrides.3.InstanceType=m3.large
		LaunchTemplateConfigs.1.Overrides.3.MaxPrice=0.02
		SpotOptions.AllocationStrategy=capacity-optimized
		SpotOptions.InstanceInterruptionBehavior=terminate
		TagSpecification.1.ResourceType=instance
		`+tags("TagSpecification.1")+`TagSpecification.2.ResourceType=volume
		`+tags("TagSpecification.2")+`TagSpecification.3.ResourceType=fleet
		`+tags("TagSpecification.3")+`TargetCapacitySpecification.DefaultTargetCapacityType=spot
		TargetCapacitySpecification.TotalTargetCapacity=17
		Type=instant`)
	wantForm(t, calls[2], "Action=DeleteLaunchTemplate\nVersion=2016-11-15\nLaunchTemplateName="+template)
}

// A fleet that bought nothing reports what its pools lack, in the contract's errors.
func TestFleetErrors(t *testing.T) {
	for _, c := range []struct {
		codes []string
		want  error
	}{
		{[]string{"SpotMaxPriceTooLow", "InsufficientInstanceCapacity"}, provisioner.ErrNoCapacity},
		{[]string{"UnfulfillableCapacity"}, provisioner.ErrNoCapacity},
		{[]string{"SpotMaxPriceTooLow", "SpotMaxPriceTooLow", "InvalidParameterValue"}, provisioner.ErrPriceTooLow},
		{[]string{"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded"}, provisioner.ErrLimit},
		{[]string{"UnauthorizedOperation"}, provisioner.ErrDenied},
		{[]string{"InvalidFleetConfiguration"}, provisioner.ErrInvalid},
		{nil, provisioner.ErrNoCapacity},
	} {
		s := newServer(t, byAction(map[string]string{"CreateLaunchTemplate": templateAnswer, "CreateFleet": fleetAnswer(fleetErrors(c.codes...)),
			"DeleteLaunchTemplate": `<DeleteLaunchTemplateResponse></DeleteLaunchTemplateResponse>`}))
		if got, err := s.cloud().Launch(t.Context(), fleetRequest(2)); !errors.Is(err, c.want) || len(got) > 0 {
			t.Errorf("%v: got %v, %v; want %v", c.codes, got, err, c.want)
		}
	}
	s := newServer(t, func(form url.Values) (int, string) {
		if form.Get("Action") == "CreateFleet" {
			return http.StatusBadRequest, apiError("IdempotentParameterMismatch", "words")
		}
		return http.StatusBadRequest, apiError("InvalidLaunchTemplateName.AlreadyExistsException", "an earlier try has made it")
	})
	if _, err := s.cloud().Launch(t.Context(), fleetRequest(2)); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("a used token: %v", err)
	}
}

// What each pool lacks, in the contract's errors; pools that met the request are not listed.
func TestFleetRefusals(t *testing.T) {
	of := func(code, kind, where string) string {
		return `<item><launchTemplateAndOverrides><overrides><instanceType>` + kind + `</instanceType>` + where + `</overrides></launchTemplateAndOverrides>` +
			`<lifecycle>spot</lifecycle><errorCode>` + code + `</errorCode><errorMessage>words</errorMessage></item>`
	}
	zoneA, subnetB := "<availabilityZone>us-west-1a</availabilityZone>", "<subnetId>subnet-b</subnetId>"
	r := fleetRequest(2)
	for _, c := range []struct {
		name, errors, machines string
		want                   map[market.Pool]error
		fails                  error
	}{
		{"one of three", of("InsufficientInstanceCapacity", "c3.large", subnetB), "i-0a",
			map[market.Pool]error{r.Or[0].Pool: provisioner.ErrNoCapacity}, nil},
		{"each its own", of("SpotMaxPriceTooLow", "c3.large", zoneA) + of("MaxSpotInstanceCountExceeded", "c3.large", subnetB) +
			of("UnfulfillableCapacity", "m3.large", zoneA), "",
			map[market.Pool]error{r.Pool: provisioner.ErrPriceTooLow, r.Or[0].Pool: provisioner.ErrLimit, r.Or[1].Pool: provisioner.ErrNoCapacity},
			provisioner.ErrNoCapacity},
		{"a quota is that of all", of("VcpuLimitExceeded", "c3.large", zoneA) + of("VcpuLimitExceeded", "c3.large", subnetB) +
			of("VcpuLimitExceeded", "m3.large", zoneA), "",
			map[market.Pool]error{r.Pool: provisioner.ErrLimit, r.Or[0].Pool: provisioner.ErrLimit, r.Or[1].Pool: provisioner.ErrLimit},
			provisioner.ErrLimit},
		{"a type that a zone does not have", of("Unsupported", "m3.large", zoneA), "i-0a",
			map[market.Pool]error{r.Or[1].Pool: provisioner.ErrInvalid}, nil},
		{"of a pool that was not named", of("InsufficientInstanceCapacity", "c3.large", "<subnetId>subnet-z</subnetId>"), "i-0a", nil, nil},
	} {
		answer := "<errorSet>" + c.errors + "</errorSet>"
		if c.machines != "" {
			answer += `<fleetInstanceSet><item><instanceIds><item>i-0a</item></instanceIds></item></fleetInstanceSet>`
		}
		s := newServer(t, byAction(map[string]string{"CreateLaunchTemplate": templateAnswer, "CreateFleet": fleetAnswer(answer),
			"DeleteLaunchTemplate": `<DeleteLaunchTemplateResponse></DeleteLaunchTemplateResponse>`,
			"DescribeInstances":    describeAnswer("", instance{id: "i-0a", state: "pending", tags: tagSet("tierml:token", "job-1/2")})}))
		cloud := s.cloud(func(c *ec2.Config) { c.Subnets = map[string]string{"us-west-1b": "subnet-b"} })
		_, refused, err := provisioner.Choose(t.Context(), cloud, r)
		if !errors.Is(err, c.fails) || (err == nil) != (c.fails == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.fails)
		}
		got := map[market.Pool]error{}
		for _, one := range refused {
			if !errors.Is(one.Err, c.want[one.Pool]) || c.want[one.Pool] == nil {
				t.Errorf("%s: %s refused with %v, want %v", c.name, one.Pool, one.Err, c.want[one.Pool])
			}
			got[one.Pool] = one.Err
		}
		if len(got) != len(c.want) || len(refused) != len(got) {
			t.Errorf("%s: %d refusals of %d pools, want %d", c.name, len(refused), len(got), len(c.want))
		}
	}
}

// templatesAnswer lists launch templates by id, name and tags.
func templatesAnswer(templates ...[3]string) string {
	text := "<DescribeLaunchTemplatesResponse><launchTemplates>"
	for _, t := range templates {
		text += "<item><launchTemplateId>" + t[0] + "</launchTemplateId><launchTemplateName>" + t[1] + "</launchTemplateName>" +
			"<createTime>2026-11-22T01:00:00Z</createTime>" + t[2] + "</item>"
	}
	return text + "</launchTemplates></DescribeLaunchTemplatesResponse>"
}

// A launch template that a dead controller left is listed with the machines, and deleted with them; the cluster's other templates are not.
func TestLeftTemplates(t *testing.T) {
	tags := tagSet("tierml:cluster", "blue", "tierml:token", "t", "tierml:job", "real-1-0a", "tierml:owner", "ann", "tierml:expires", "2026-11-22T02:00:00Z")
	s := newServer(t, func(form url.Values) (int, string) {
		switch form.Get("Action") {
		case "DescribeInstances":
			return http.StatusOK, describeAnswer("", instance{id: "i-0a", state: "running", tags: tags})
		case "DescribeLaunchTemplates":
			return http.StatusOK, templatesAnswer([3]string{"lt-1", "tierml-0123", tags}, [3]string{"lt-2", "somebody-elses", tagSet("tierml:cluster", "blue")})
		case "DeleteLaunchTemplate":
			return http.StatusBadRequest, apiError("InvalidLaunchTemplateId.NotFound", "somebody was faster")
		}
		return http.StatusOK, "<TerminateInstancesResponse></TerminateInstancesResponse>"
	})
	cloud := s.cloud()
	held, err := cloud.Holdings(t.Context())
	if err != nil || len(held) != 2 || held[1].ID != "lt-1" || held[1].Job != "real-1-0a" || held[1].Pool.Type != "launch-template" || held[1].Expires.IsZero() {
		t.Fatalf("%+v, %v", held, err)
	}
	if err := cloud.Terminate(t.Context(), held[0].ID, held[1].ID); err != nil {
		t.Fatal(err)
	}
	if err := cloud.RemoveLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, call := range s.recorded() {
		switch call.Get("Action") {
		case "DeleteLaunchTemplate":
			deleted = append(deleted, call.Get("LaunchTemplateId"))
		case "TerminateInstances":
			if call.Get("InstanceId.1") != "i-0a" || call.Get("InstanceId.2") != "" {
				t.Errorf("terminated by %v", call)
			}
		case "DescribeLaunchTemplates":
			wantForm(t, call, `
				Action=DescribeLaunchTemplates
				Version=2016-11-15
				Filter.1.Name=tag:tierml:cluster
				Filter.1.Value.1=blue
				MaxResults=200`)
		}
	}
	if len(deleted) != 2 || deleted[0] != "lt-1" || deleted[1] != "lt-1" {
		t.Errorf("deleted %v, want lt-1 twice", deleted)
	}
	denied := newServer(t, func(form url.Values) (int, string) {
		if form.Get("Action") == "DescribeInstances" {
			return http.StatusOK, describeAnswer("", instance{id: "i-0a", state: "running", tags: tags})
		}
		return http.StatusForbidden, apiError("UnauthorizedOperation", "no")
	})
	if held, err := denied.cloud().Holdings(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("a role without the right to list templates: %v, %v", held, err)
	}
}

// Against the fake cloud: the cheapest pools first, up to their capacity; the same machines when it is repeated, even after their end; a
// different request with that token is refused.
func TestFleetOfTheFakeCloud(t *testing.T) {
	r := fleetRequest(4)
	r.Bid = market.Dollar
	for i := range r.Or {
		r.Or[i].Bid = market.Dollar
	}
	r.Or[1].Bid = market.Dollar / 100 // too low
	config := fakecloud.Config{Clock: clock.Real(), Region: "us-west-1", Rules: mustRules(t), Notice: time.Hour, Boot: time.Hour, Visible: 300 * time.Millisecond,
		Prices:   map[market.Pool]*market.History{r.Pool: market.Constant(market.Dollar / 10), r.Or[0].Pool: market.Constant(market.Dollar / 20), r.Or[1].Pool: market.Constant(market.Dollar / 30)},
		Capacity: map[market.Pool]int{r.Pool: 1, r.Or[0].Pool: 2}}
	for _, name := range []string{"c3.large", "m3.large"} {
		config.Types = append(config.Types, fakecloud.InstanceType{InstanceType: market.InstanceType{Name: name, OnDemand: market.Dollar}})
	}
	fake := fakecloudtest.Start(t, config)
	cloud := newCloud(t, ec2.Config{Endpoint: fake.Endpoint(), Region: "us-west-1", Cluster: "blue", ImageID: "ami-1"})
	if rights, err := cloud.TryFleet(t.Context(), r); err != nil || len(rights.Denied)+len(rights.Unsure) > 0 {
		t.Errorf("a trial: %+v, %v", rights, err)
	}
	got, err := cloud.Launch(t.Context(), r)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v; want the three that there are", got, err)
	}
	pools := map[market.Pool]int{}
	for _, i := range got {
		pools[i.Pool]++
		if i.Token != r.Token || i.Bid != market.Dollar || i.Launched.IsZero() || i.Tags["job"] != "mf" {
			t.Errorf("machine %+v", i)
		}
	}
	if pools[r.Pool] != 1 || pools[r.Or[0].Pool] != 2 {
		t.Errorf("by pool %v", pools)
	}
	again, err := cloud.Launch(t.Context(), r)
	if err != nil || len(again) != 3 || again[0].ID != got[0].ID {
		t.Errorf("again %v, %v; want %v", again, err, got)
	}
	other := r
	other.Count = 2
	if _, err := cloud.Launch(t.Context(), other); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("another request by the token: %v", err)
	}
	for _, i := range got {
		if err := cloud.Terminate(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
	}
	if listed, err := cloud.List(t.Context()); err != nil || len(listed) != 3 {
		t.Errorf("listed %v, %v: not more than were bought", listed, err)
	}
	r.Token, r.Bid, r.Or[0].Bid = "job-1/3", market.Dollar/100, market.Dollar/100
	if got, err := cloud.Launch(t.Context(), r); !errors.Is(err, provisioner.ErrPriceTooLow) {
		t.Errorf("all bids are too low: %v, %v", got, err)
	}
}
