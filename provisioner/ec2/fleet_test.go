package ec2_test

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
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/ec2"
)

// fleetRequest asks for machines of three pools.
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
		c.Owner, c.Strategy, c.InstanceProfile = "ann", ec2.CapacityOptimized, "worker"
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
		LaunchTemplateData.MetadataOptions.HttpTokens=required
		LaunchTemplateData.MetadataOptions.InstanceMetadataTags=enabled
		LaunchTemplateData.SecurityGroupId.1=sg-1
		LaunchTemplateData.TagSpecification.1.ResourceType=instance
		`+tags("LaunchTemplateData.TagSpecification.1")+`LaunchTemplateData.TagSpecification.2.ResourceType=volume
		`+tags("LaunchTemplateData.TagSpecification.2")+`LaunchTemplateData.TagSpecification.3.ResourceType=spot-instances-request
		`+tags("LaunchTemplateData.TagSpecification.3")+`LaunchTemplateData.UserData=aGVsbG8=
		TagSpecification.1.ResourceType=launch-template
		TagSpecification.1.Tag.1.Key=tierml:cluster
		TagSpecification.1.Tag.1.Value=blue`)
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
		TargetCapacitySpecification.DefaultTargetCapacityType=spot
		TargetCapacitySpecification.TotalTargetCapacity=17
		Type=instant`)
	wantForm(t, calls[2], "Action=DeleteLaunchTemplate\nVersion=2016-11-15\nLaunchTemplateName="+template)
}

// A fleet that bought nothing says what its pools lack, in the contract's errors.
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

// Against the fake cloud: the cheapest pools first, up to what they have; the same machines when it is asked again, also after
// their end; another request by that token is refused.
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
