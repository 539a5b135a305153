package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

func TestLaunchSpotRequest(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer(
		instance{id: "i-0b", state: "pending", lifecycle: "spot", spotRequest: "sir-2"},
		instance{id: "i-0a", state: "pending", lifecycle: "spot", spotRequest: "sir-1"},
	)))
	got, err := s.cloud(func(c *ec2.Config) { c.Owner = "ann" }).Launch(t.Context(), spotRequest())
	if err != nil {
		t.Fatal(err)
	}
	want := func(id provisioner.InstanceID) provisioner.Instance {
		return provisioner.Instance{ID: id, Pool: spotPool(), Bid: 123_456_789, Token: "job-1/2",
			State: provisioner.Pending, Launched: time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC), Tags: map[string]string{}}
	}
	if diff := cmp.Diff([]provisioner.Instance{want("i-0a"), want("i-0b")}, got); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	wantForm(t, s.recorded()[0], `
		Action=RunInstances
		Version=2016-11-15
		ClientToken=job-1/2
		ImageId=ami-1
		InstanceInitiatedShutdownBehavior=terminate
		InstanceMarketOptions.MarketType=spot
		InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior=terminate
		InstanceMarketOptions.SpotOptions.MaxPrice=0.123456789
		InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time
		InstanceType=c3.large
		MaxCount=17
		MetadataOptions.HttpEndpoint=enabled
		MetadataOptions.HttpPutResponseHopLimit=1
		MetadataOptions.HttpTokens=required
		MetadataOptions.InstanceMetadataTags=enabled
		MinCount=1
		Placement.AvailabilityZone=us-west-1a
		TagSpecification.1.ResourceType=instance
		`+tagForm(1)+`
		TagSpecification.2.ResourceType=volume
		`+tagForm(2)+`
		TagSpecification.3.ResourceType=spot-instances-request
		`+tagForm(3)+`
		UserData=aGVsbG8=`)
}

// tagForm returns the tags of spotRequest as they are sent: always in the same order, because EC2 compares requests.
func tagForm(specification int) string {
	var lines []string
	prefix := "TagSpecification." + string(rune('0'+specification)) + ".Tag."
	for n, pair := range [][2]string{
		{"tierml:cluster", "blue"}, {"tierml:token", "job-1/2"}, {"tierml:owner", "ann"}, {"tierml:bid", "0.123456789"},
		{"Name", "blue"}, {"attempt", "1"}, {"job", "mf"},
	} {
		number := string(rune('1' + n))
		lines = append(lines, prefix+number+".Key="+pair[0], prefix+number+".Value="+pair[1])
	}
	return strings.Join(lines, "\n")
}

func TestLaunchOnDemandRequest(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer(instance{id: "i-0a", state: "pending"})))
	cloud := s.cloud(func(c *ec2.Config) {
		c.Subnets = map[string]string{"us-west-1a": "subnet-a", "us-west-1b": "subnet-b"}
		c.SecurityGroups = []string{"sg-1", "sg-2"}
		c.InstanceProfile = "worker"
		c.RootVolume = &ec2.RootVolume{Device: "/dev/xvda", SizeGiB: 20}
	})
	r := provisioner.Request{Token: "t", Pool: spotPool(), Count: 1}
	r.Pool.Class = market.OnDemand
	got, err := cloud.Launch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Pool != r.Pool || got[0].Bid != 0 {
		t.Errorf("got %+v", got)
	}
	wantForm(t, s.recorded()[0], `
		Action=RunInstances
		Version=2016-11-15
		BlockDeviceMapping.1.DeviceName=/dev/xvda
		BlockDeviceMapping.1.Ebs.DeleteOnTermination=true
		BlockDeviceMapping.1.Ebs.Encrypted=true
		BlockDeviceMapping.1.Ebs.VolumeSize=20
		BlockDeviceMapping.1.Ebs.VolumeType=gp3
		ClientToken=t
		IamInstanceProfile.Name=worker
		ImageId=ami-1
		InstanceInitiatedShutdownBehavior=terminate
		InstanceType=c3.large
		MaxCount=1
		MetadataOptions.HttpEndpoint=enabled
		MetadataOptions.HttpPutResponseHopLimit=1
		MetadataOptions.HttpTokens=required
		MetadataOptions.InstanceMetadataTags=enabled
		MinCount=1
		Placement.AvailabilityZone=us-west-1a
		SecurityGroupId.1=sg-1
		SecurityGroupId.2=sg-2
		SubnetId=subnet-a
		TagSpecification.1.ResourceType=instance
		TagSpecification.1.Tag.1.Key=tierml:cluster
		TagSpecification.1.Tag.1.Value=blue
		TagSpecification.1.Tag.2.Key=tierml:token
		TagSpecification.1.Tag.2.Value=t
		TagSpecification.1.Tag.3.Key=Name
		TagSpecification.1.Tag.3.Value=blue
		TagSpecification.2.ResourceType=volume
		TagSpecification.2.Tag.1.Key=tierml:cluster
		TagSpecification.2.Tag.1.Value=blue
		TagSpecification.2.Tag.2.Key=tierml:token
		TagSpecification.2.Tag.2.Value=t
		TagSpecification.2.Tag.3.Key=Name
		TagSpecification.2.Tag.3.Value=blue`)
}

// A spot request without a bid must not name a price: EC2 then uses the on-demand price.
func TestLaunchWithoutBid(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer(instance{id: "i-0a", state: "pending", lifecycle: "spot"})))
	r := spotRequest()
	r.Bid = 0
	if _, err := s.cloud().Launch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	form := s.recorded()[0]
	if form.Get("InstanceMarketOptions.MarketType") != "spot" || form.Has("InstanceMarketOptions.SpotOptions.MaxPrice") {
		t.Errorf("sent %v", form)
	}
}

func TestLaunchRefusesWithoutAsking(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer()))
	for name, change := range map[string]func(*provisioner.Request){
		"region":    func(r *provisioner.Request) { r.Pool.Region = "eu-west-1" },
		"count":     func(r *provisioner.Request) { r.Count = 1001 },
		"tag name":  func(r *provisioner.Request) { r.Tags = map[string]string{"my job": "x"} },
		"user data": func(r *provisioner.Request) { r.UserData = strings.Repeat("x", 16<<10+1) },
	} {
		r := spotRequest()
		change(&r)
		if _, err := s.cloud().Launch(t.Context(), r); !errors.Is(err, provisioner.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	noImage := s.cloud(func(c *ec2.Config) { c.ImageID = "" })
	if _, err := noImage.Launch(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("without image: got %v, want ErrInvalid", err)
	}
	if sent := s.recorded(); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
}

func TestLaunchWithoutMachinesIsNoCapacity(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer()))
	if got, err := s.cloud().Launch(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrNoCapacity) {
		t.Errorf("got %v, %v", got, err)
	}
}

// EC2 refuses a token whose machines have ended; the contract promises the same machines.
func TestLaunchFindsDepartedMachines(t *testing.T) {
	tags := tagSet("tierml:cluster", "blue", "tierml:token", "job-1/2", "tierml:bid", "0.123456789", "job", "mf")
	s := newServer(t, func(form url.Values) (int, string) {
		switch form.Get("Action") {
		case "RunInstances":
			return http.StatusBadRequest, apiError("IdempotentInstanceTerminated", "gone")
		case "DescribeInstances":
			return http.StatusOK, describeAnswer("", instance{id: "i-0a", state: "terminated", lifecycle: "spot",
				spotRequest: "sir-1", code: "Server.SpotInstanceTermination", tags: tags})
		}
		return http.StatusOK, requestsAnswer("sir-1", "instance-terminated-by-price", "2014-03-01T10:30:00.000Z")
	})
	got, err := s.cloud().Launch(t.Context(), spotRequest())
	if err != nil {
		t.Fatal(err)
	}
	want := []provisioner.Instance{{ID: "i-0a", Pool: spotPool(), Bid: 123_456_789, Token: "job-1/2",
		State: provisioner.Terminated, Launched: time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC),
		Ended: time.Date(2014, 3, 1, 10, 30, 0, 0, time.UTC), EndedBy: market.ByProvider,
		Reason: "Server.SpotInstanceTermination: words", Tags: map[string]string{"job": "mf"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	for _, form := range s.recorded()[1:] {
		wantForm(t, form, `
			Action=`+form.Get("Action")+`
			Version=2016-11-15
			Filter.1.Name=tag:tierml:cluster
			Filter.1.Value.1=blue
			Filter.2.Name=tag:tierml:token
			Filter.2.Value.1=job-1/2
			MaxResults=1000`)
	}
	s.answer = func(form url.Values) (int, string) {
		if form.Get("Action") == "RunInstances" {
			return http.StatusBadRequest, apiError("IdempotentInstanceTerminated", "gone")
		}
		return http.StatusOK, describeAnswer("")
	}
	if _, err := s.cloud().Launch(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrInvalid) {
		t.Errorf("machines of the token are no longer shown: got %v, want ErrInvalid", err)
	}
}

// A trial is the real launch's request, except for its token and with DryRun. EC2 answers it with an error.
func TestTry(t *testing.T) {
	answer := apiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	s := newServer(t, func(url.Values) (int, string) { return http.StatusPreconditionFailed, answer })
	cloud := s.cloud(func(c *ec2.Config) { c.Job, c.Owner = "real-1-0a", "ann" })
	r := spotRequest()
	r.Count = 1
	if err := cloud.Try(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	form := s.recorded()[0]
	if form.Get("DryRun") != "true" || form.Get("ClientToken") == r.Token || form.Get("Action") != "RunInstances" ||
		form.Get("InstanceMarketOptions.SpotOptions.MaxPrice") != "0.123456789" || form.Get("MetadataOptions.HttpTokens") != "required" {
		t.Errorf("%v", form)
	}
	answer = apiError("UnauthorizedOperation", "You are not authorized to perform this operation.")
	if err := cloud.Try(t.Context(), r); !errors.Is(err, provisioner.ErrDenied) {
		t.Errorf("%v; want ErrDenied", err)
	}
}

// An endpoint that ignores DryRun buys a machine: it is ended, and the error says that money may have been spent.
func TestTryEndsWhatAnIgnoredDryRunBought(t *testing.T) {
	r := spotRequest()
	r.Count = 1
	for name, c := range map[string]struct{ ended, want string }{
		"ended":     {`<TerminateInstancesResponse><instancesSet><item><instanceId>i-0a</instanceId></item></instancesSet></TerminateInstancesResponse>`, "i-0a was ended"},
		"not ended": {"", "end i-0a yourself"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(form url.Values) (int, string) {
				switch action := form.Get("Action"); {
				case action == "RunInstances":
					return http.StatusOK, runAnswer(instance{id: "i-0a", state: "pending"})
				case action == "TerminateInstances" && c.ended != "":
					return http.StatusOK, c.ended
				}
				return http.StatusForbidden, apiError("UnauthorizedOperation", "You are not authorized to perform this operation.")
			})
			err := s.cloud().Try(t.Context(), r)
			if !errors.Is(err, provisioner.ErrInvalid) || !strings.Contains(err.Error(), "a machine may have been bought") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if !slices.Contains(s.actions(), "TerminateInstances") {
				t.Errorf("calls %v", s.actions())
			}
		})
	}
}

// Every machine is tagged with its owner, job, controller, and until when it is wanted; listings filter by the job's own tags.
func TestTagsOfAJob(t *testing.T) {
	s := newServer(t, byAction(map[string]string{
		"RunInstances":      runAnswer(instance{id: "i-0a", state: "pending"}),
		"DescribeInstances": describeAnswer(""),
	}))
	cloud := s.cloud(func(c *ec2.Config) { c.Job, c.Owner = "real-1-0a", "ann" })
	r := provisioner.Request{Token: "t", Pool: spotPool(), Count: 1, Tags: map[string]string{"tier": "reliable"},
		Generation: "2", Expires: time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)}
	r.Pool.Class = market.OnDemand
	if _, err := cloud.Launch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	launch := s.recorded()[0]
	for n := 1; launch.Get(fmt.Sprintf("TagSpecification.2.Tag.%d.Key", n)) != ""; n++ {
		tags[launch.Get(fmt.Sprintf("TagSpecification.2.Tag.%d.Key", n))] = launch.Get(fmt.Sprintf("TagSpecification.2.Tag.%d.Value", n))
	}
	want := map[string]string{"tierml:cluster": "blue", "tierml:job": "real-1-0a", "tierml:owner": "ann", "tierml:generation": "2",
		"tierml:expires": "2026-11-22T20:00:00Z", "tierml:token": "t", "Name": "blue", "tier": "reliable"}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("a volume's tags (-want +got):\n%s", diff)
	}
	list := s.recorded()[1]
	if list.Get("Filter.1.Name") != "tag:tierml:cluster" || list.Get("Filter.2.Name") != "tag:tierml:job" || list.Get("Filter.2.Value.1") != "real-1-0a" {
		t.Errorf("it lists by %v", list)
	}
}
