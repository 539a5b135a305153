package query

import (
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A created volume is attached and detached like EC2's, and outlives the machine that used it.
func TestVolumes(t *testing.T) {
	w := newWorld(t)
	handler := New(w, slog.New(slog.DiscardHandler))
	ask := func(form, want string) string {
		t.Helper()
		r := httptest.NewRequest("POST", "http://ec2.local/", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if text := answer.Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", form, text, want)
		}
		return answer.Body.String()
	}
	named := func(text, element string) string {
		found := regexp.MustCompile("<" + element + ">([^<]*)<").FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in %s", element, text)
		}
		return found[1]
	}
	machine := named(ask("Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-west-1a", "pending"), "instanceId")
	volume := named(ask("Action=CreateVolume&AvailabilityZone=us-west-1a&Size=10&ClientToken=a", "<status>available<"), "volumeId")
	if again := named(ask("Action=CreateVolume&AvailabilityZone=us-west-1a&Size=10&ClientToken=a", "10"), "volumeId"); again != volume {
		t.Errorf("the token made %s, then %s", volume, again)
	}
	elsewhere := named(ask("Action=CreateVolume&AvailabilityZone=us-west-1c&Size=10", "us-west-1c"), "volumeId")
	attach := "Action=AttachVolume&Device=/dev/sdf&InstanceId=" + machine + "&VolumeId="
	ask(attach+volume, "IncorrectState")
	w.now = w.now.Add(time.Minute)
	ask(attach+elsewhere, "InvalidVolume.ZoneMismatch")
	ask(attach+"vol-1", "InvalidVolume.NotFound")
	ask(attach+volume+"&DryRun=true", "DryRunOperation")
	ask(attach+volume, "<status>attached<")
	ask(attach+volume, "VolumeInUse")
	ask("Action=DescribeInstances&InstanceId.1="+machine, "<volumeId>"+volume)
	ask("Action=DescribeVolumes&VolumeId.1="+volume, "<status>in-use<")
	ask("Action=DeleteVolume&VolumeId="+volume, "VolumeInUse")
	ask("Action=DeleteVolume&VolumeId=vol-"+strings.TrimPrefix(machine, "i-"), "OperationNotPermitted")
	ask("Action=DetachVolume&VolumeId="+volume, "<status>detached<")
	ask("Action=DetachVolume&VolumeId="+volume, "IncorrectState")
	ask(attach+volume, "<status>attached<")
	ask("Action=TerminateInstances&InstanceId.1="+machine, "shutting-down")
	ask("Action=DescribeVolumes&VolumeId.1="+volume, "<status>available<")
	ask("Action=DeleteVolume&VolumeId="+volume, "<return>true<")
	ask("Action=DescribeVolumes&VolumeId.1="+volume, "InvalidVolume.NotFound")
}
