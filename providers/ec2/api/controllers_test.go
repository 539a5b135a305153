package api_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

func controllerRequest() provisioner.ControllerRequest {
	return provisioner.ControllerRequest{Token: "tierml-controller-0a", Zone: "us-west-1a", Type: "t3.small", Role: "blue-ctl", Network: []string{"sg-ctl"},
		DiskGiB: 30, UserData: "hello"}
}

// The machine of a job server is on demand, keeps its disk when it is shut down, and has none of the tags by which a run or tierml down
// finds machines to end.
func TestStartController(t *testing.T) {
	s := newServer(t, always(http.StatusOK, runAnswer(instance{id: "i-0c", state: "pending"})))
	cloud := s.cloud(func(c *ec2.Config) {
		c.Owner, c.Subnets, c.SecurityGroups, c.InstanceProfile = "ann", map[string]string{"us-west-1a": "subnet-a"}, []string{"sg-machines"}, "blue-mch"
		c.RootVolume = &ec2.RootVolume{Device: "/dev/xvda", SizeGiB: 16}
	})
	got, err := cloud.StartController(t.Context(), controllerRequest())
	want := provisioner.Controller{ID: "i-0c", Zone: "us-west-1a", Type: "c3.large", State: "pending", Launched: time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC)}
	if err != nil || got != want || !got.Running() {
		t.Errorf("%+v, %v", got, err)
	}
	wantForm(t, s.recorded()[0], `
		Action=RunInstances
		Version=2016-11-15
		BlockDeviceMapping.1.DeviceName=/dev/xvda
		BlockDeviceMapping.1.Ebs.DeleteOnTermination=true
		BlockDeviceMapping.1.Ebs.Encrypted=true
		BlockDeviceMapping.1.Ebs.VolumeSize=30
		BlockDeviceMapping.1.Ebs.VolumeType=gp3
		ClientToken=tierml-controller-0a
		IamInstanceProfile.Name=blue-ctl
		ImageId=ami-1
		InstanceInitiatedShutdownBehavior=stop
		InstanceType=t3.small
		MaxCount=1
		MetadataOptions.HttpEndpoint=enabled
		MetadataOptions.HttpPutResponseHopLimit=1
		MetadataOptions.HttpTokens=required
		MinCount=1
		Placement.AvailabilityZone=us-west-1a
		SecurityGroupId.1=sg-ctl
		SubnetId=subnet-a
		TagSpecification.1.ResourceType=instance
		TagSpecification.1.Tag.1.Key=tierml:controller-of
		TagSpecification.1.Tag.1.Value=blue
		TagSpecification.1.Tag.2.Key=tierml:role
		TagSpecification.1.Tag.2.Value=controller
		TagSpecification.1.Tag.3.Key=Name
		TagSpecification.1.Tag.3.Value=blue-controller
		TagSpecification.1.Tag.4.Key=tierml:owner
		TagSpecification.1.Tag.4.Value=ann
		TagSpecification.2.ResourceType=volume
		TagSpecification.2.Tag.1.Key=tierml:controller-of
		TagSpecification.2.Tag.1.Value=blue
		TagSpecification.2.Tag.2.Key=tierml:role
		TagSpecification.2.Tag.2.Value=controller
		TagSpecification.2.Tag.3.Key=Name
		TagSpecification.2.Tag.3.Value=blue-controller
		TagSpecification.2.Tag.4.Key=tierml:owner
		TagSpecification.2.Tag.4.Value=ann
		UserData=aGVsbG8=`)
}

func TestControllers(t *testing.T) {
	s := newServer(t, func(form url.Values) (int, string) {
		switch {
		case form.Get("Action") == "TerminateInstances":
			return http.StatusOK, terminated
		case form.Get("NextToken") == "":
			return http.StatusOK, describeAnswer("more", instance{id: "i-0d", state: "stopped"})
		}
		return http.StatusOK, describeAnswer("", instance{id: "i-0c", state: "running", tags: tagSet("tierml:controller-of", "blue", "tierml:owner", "ann")})
	})
	cloud := s.cloud()
	got, err := cloud.Controllers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2014, 3, 1, 10, 0, 0, 0, time.UTC)
	want := []provisioner.Controller{{ID: "i-0c", Zone: "us-west-1a", Type: "c3.large", State: "running", Owner: "ann", Launched: at},
		{ID: "i-0d", Zone: "us-west-1a", Type: "c3.large", State: "stopped", Launched: at}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	if !got[0].Running() || got[1].Running() {
		t.Error("the stopped one is taken for the running one")
	}
	wantForm(t, s.recorded()[0], `
		Action=DescribeInstances
		Version=2016-11-15
		Filter.1.Name=tag:tierml:controller-of
		Filter.1.Value.1=blue
		Filter.2.Name=instance-state-name
		Filter.2.Value.1=pending
		Filter.2.Value.2=running
		Filter.2.Value.3=stopping
		Filter.2.Value.4=stopped
		MaxResults=1000`)
	if err := cloud.EndController(t.Context(), got[0]); err != nil {
		t.Fatal(err)
	}
	wantForm(t, s.recorded()[2], `
		Action=TerminateInstances
		Version=2016-11-15
		InstanceId.1=i-0c`)
}
