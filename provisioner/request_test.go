package provisioner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

var traits = provisioner.Traits{Provider: "ec2", MaxBid: true, MaxLaunch: 100, MaxUserData: 16}

func good() provisioner.Request {
	return provisioner.Request{
		Token: "job-1/launch-3",
		Pool:  market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.large", Class: market.Spot},
		Bid:   market.Dollar / 10,
		Count: 3,
		Tags:  map[string]string{"job": "mf"},
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*provisioner.Request)
		want   string // in the error; "" = valid
	}{
		{"good", func(*provisioner.Request) {}, ""},
		{"no bid", func(r *provisioner.Request) { r.Bid = 0 }, ""},
		{"no token", func(r *provisioner.Request) { r.Token = "" }, "token is empty"},
		{"long token", func(r *provisioner.Request) { r.Token = strings.Repeat("x", 65) }, "at most 64"},
		{"token with space", func(r *provisioner.Request) { r.Token = "a b" }, "printable"},
		{"other provider", func(r *provisioner.Request) { r.Pool.Provider = "gce" }, "not sold by ec2"},
		{"no zone", func(r *provisioner.Request) { r.Pool.Zone = "" }, "lacks a zone"},
		{"class", func(r *provisioner.Request) { r.Pool.Class = "cheap" }, `class "cheap"`},
		{"count 0", func(r *provisioner.Request) { r.Count = 0 }, "at least 1"},
		{"count 101", func(r *provisioner.Request) { r.Count = 101 }, "at most 100"},
		{"bid below zero", func(r *provisioner.Request) { r.Bid = -1 }, "below zero"},
		{"on-demand bid", func(r *provisioner.Request) { r.Pool.Class = market.OnDemand }, "fixed price"},
		{"user data", func(r *provisioner.Request) { r.UserData = strings.Repeat("x", 17) }, "17 bytes"},
		{"own tag", func(r *provisioner.Request) { r.Tags = map[string]string{"tierml:cluster": "x"} }, "kept for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.change(&r)
			err := r.Validate(traits)
			switch {
			case c.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.want != "" && !errors.Is(err, provisioner.ErrInvalid):
				t.Fatalf("got %v, want ErrInvalid", err)
			case c.want != "" && !strings.Contains(err.Error(), c.want):
				t.Fatalf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestValidateReportsAllFaults(t *testing.T) {
	err := provisioner.Request{Pool: market.Pool{Provider: "gce"}, Bid: -5}.Validate(traits)
	for _, want := range []string{"token", "not sold", "zone", "class", "count", "bid"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func TestRetryable(t *testing.T) {
	for _, err := range []error{provisioner.ErrThrottled, provisioner.ErrTemporary} {
		if !provisioner.Retryable(errors.Join(errors.New("launching"), err)) {
			t.Errorf("%v is not retryable", err)
		}
	}
	for _, err := range []error{nil, provisioner.ErrNoCapacity, provisioner.ErrPriceTooLow, provisioner.ErrLimit,
		provisioner.ErrNotFound, provisioner.ErrInvalid, provisioner.ErrDenied, errors.New("other")} {
		if provisioner.Retryable(err) {
			t.Errorf("%v is retryable", err)
		}
	}
}
