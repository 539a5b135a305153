package notice_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/fakecloud/fakecloudtest"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/ec2/notice"
	"github.com/tierml/tierml/provisioner"
)

// A machine of the fake cloud, which was written independently of this package, learns its identity, its user data, and when it must end.
func TestFakeCloud(t *testing.T) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	pool := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.large", Class: market.Spot}
	start := time.Date(2014, 3, 1, 12, 0, 0, 0, time.UTC)
	fake := fakecloudtest.Start(t, fakecloud.Config{
		Clock: clock.Mapping{Market: start, Wall: time.Now(), Speed: 600}, Region: pool.Region, Rules: rules,
		Types:  []fakecloud.InstanceType{{InstanceType: market.InstanceType{Name: pool.Type, Arch: "x86_64", VCPU: 2, MemoryMiB: 3840, OnDemand: market.Dollar / 10}}},
		Prices: map[market.Pool]*market.History{pool: market.Constant(market.Dollar / 20)},
		Notice: time.Minute,
	})
	m := launchOne(t, fake, pool)
	c := notice.Config{Endpoint: m.Metadata, Interval: 5 * time.Millisecond, Report: func(err error) { t.Error(err) }}

	identity, err := notice.ReadIdentity(t.Context(), c)
	want := notice.Identity{ID: provisioner.InstanceID(m.ID), Type: pool.Type, Zone: pool.Zone, Region: pool.Region}
	if err != nil || identity != want {
		t.Errorf("got %+v, %v; want %+v", identity, err, want)
	}
	if data, err := notice.ReadUserData(t.Context(), c); err != nil || string(data) != "to do" {
		t.Errorf("user data %q, %v", data, err)
	}

	watched, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	script(t, fake, "rebalance "+m.ID)
	var told []provisioner.Notice
	if err := notice.Watch(watched, c, func(n provisioner.Notice) {
		switch told = append(told, n); n.Kind {
		case provisioner.Rebalance:
			script(t, fake, "evict "+m.ID)
		case provisioner.Eviction:
			stop()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Kind != provisioner.Rebalance || told[1].ID != want.ID {
		t.Fatalf("told %+v, want a rebalance and an eviction of %s", told, want.ID)
	}
	if shown := fake.Instances()[0].Deadline; !told[1].Deadline.Equal(shown.Truncate(time.Second)) {
		t.Errorf("told of the deadline %s, the cloud has %s", told[1].Deadline, shown)
	}
}

func script(t *testing.T, fake *fakecloud.Cloud, step string) {
	t.Helper()
	s, err := fakecloud.ParseStep(step)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fake.Make(fakecloud.Script{s}); err != nil {
		t.Fatalf("%s: %v", step, err)
	}
}

// launchOne buys a machine without any SDK and waits for its metadata service.
func launchOne(t *testing.T, fake *fakecloud.Cloud, pool market.Pool) fakecloud.InstanceView {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).PostForm(fake.Endpoint(), url.Values{
		"Action": {"RunInstances"}, "Version": {"2016-11-15"}, "ImageId": {"ami-0123456789abcdef0"}, "InstanceType": {pool.Type},
		"MinCount": {"1"}, "MaxCount": {"1"}, "Placement.AvailabilityZone": {pool.Zone}, "InstanceMarketOptions.MarketType": {"spot"},
		"UserData": {base64.StdEncoding.EncodeToString([]byte("to do"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("launching: %s", response.Status)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if all := fake.Instances(); len(all) == 1 && all[0].Metadata != "" && all[0].State == "running" {
			return all[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the machine does not start: %+v", fake.Instances())
		}
	}
}
