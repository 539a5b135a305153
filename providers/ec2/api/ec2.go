// Package api is Amazon EC2 as a provisioner.Cloud, on the AWS SDK for Go v2. It is the only package that
// imports the SDK's EC2 client, which is very large.
//
// It translates and nothing more: requests into API calls, the API's machines into provisioner.Instance, its
// error codes into the contract's errors (errors.go). It knows nothing about what a machine is for, and it cannot
// tell EC2 from anything else that speaks its protocol: the fake cloud is one Config.Endpoint away.
//
// EC2 answers from many copies of its state, which need some seconds to agree. Two things follow for a
// machine that was just launched: List gives it even where EC2 does not yet, and Terminate insists when EC2
// says that there is no such machine, for else it would stay and cost money.
//
// A Cloud starts no goroutine of its own.
package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Provider is EC2's name in pools.
const Provider = "ec2"

// Limits of RunInstances.
const (
	maxLaunch   = 1000
	maxUserData = 16 << 10 // bytes before base64
)

// Cloud is EC2 in one region, seen through one cluster's tag: what is bought there and held. What is for sale is its Market's, and
// what stands ready for its machines its Account's.
type Cloud struct {
	*client
	Market
	Account

	fresh freshMachines
	ends  observedEnds
}

// client is the way to EC2.
type client struct {
	config Config
	api    *ec2.Client
	sts    *sts.Client
	http   *http.Client
}

// Market is what EC2 sells in the region: its zones, its types and their prices, the same for every cluster.
type Market struct{ *client }

// Account is what a cluster finds there that it did not buy: image, networks, rights and quotas. It only looks.
type Account struct{ *client }

var _ provisioner.Cloud = (*Cloud)(nil)

// New makes a Cloud. With a loopback endpoint or given credentials it touches neither network nor files;
// else it finds credentials by the SDK's default chain, and fails with provisioner.ErrDenied when there are
// none.
func New(ctx context.Context, c Config) (*Cloud, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configuring EC2: %w: %w", provisioner.ErrInvalid, err)
	}
	sdk, err := loadSDK(ctx, c, newHTTPClient(c))
	if err != nil {
		return nil, err
	}
	way := &client{config: c, http: sdk.HTTPClient.(*http.Client)}
	way.api = ec2.NewFromConfig(sdk, func(o *ec2.Options) {
		o.APIOptions = append(o.APIOptions, checkAnswers)
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint // also against AWS_ENDPOINT_URL_EC2 in the environment
		}
	})
	way.sts = sts.NewFromConfig(sdk, func(o *sts.Options) {
		if local, _ := adapter.IsLocal(c.Endpoint); local { // a fake cloud is all of AWS
			o.BaseEndpoint = &c.Endpoint
		}
	})
	return &Cloud{client: way, Market: Market{way}, Account: Account{way}}, nil
}

// Close gives up idle connections. The Cloud can be used on.
func (c *Cloud) Close() { c.http.CloseIdleConnections() }

// Traits says what EC2 can do.
func (c *Cloud) Traits() provisioner.Traits {
	return provisioner.Traits{
		Provider:     Provider,
		MaxBid:       true,
		NoticeLength: c.config.NoticeLength,
		MaxLaunch:    maxLaunch,
		MaxUserData:  maxUserData,
		Chooses:      true,
		Leases:       true,
	}
}

func newHTTPClient(c Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: transport, Timeout: c.AttemptTimeout}
}

func loadSDK(ctx context.Context, c Config, client *http.Client) (aws.Config, error) {
	fixed := c.Credentials
	if local, _ := adapter.IsLocal(c.Endpoint); local && fixed == nil {
		fixed = &Credentials{AccessKeyID: "local", SecretAccessKey: "local"}
	}
	if fixed != nil {
		return aws.Config{
			Region:      c.Region,
			Credentials: credentials.NewStaticCredentialsProvider(fixed.AccessKeyID, fixed.SecretAccessKey, fixed.SessionToken),
			HTTPClient:  client,
			Retryer:     func() aws.Retryer { return newRetryer(c) },
		}, nil
	}
	sdk, err := awsconfig.LoadDefaultConfig(ctx,
		awsconfig.WithRegion(c.Region),
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient()), // which takes AWS_CA_BUNDLE, and a profile's ca_bundle
		awsconfig.WithRetryer(func() aws.Retryer { return newRetryer(c) }),
	)
	if err != nil {
		return sdk, fmt.Errorf("loading the AWS configuration: %w: %w", provisioner.ErrInvalid, err)
	}
	if built, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		client = &http.Client{Transport: built.GetTransport(), Timeout: c.AttemptTimeout}
	}
	sdk.HTTPClient = client
	if _, err := sdk.Credentials.Retrieve(ctx); err != nil {
		return sdk, fmt.Errorf("finding AWS credentials: %w (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"or AWS_PROFILE, or run `aws configure`): %w", provisioner.ErrDenied, err)
	}
	return sdk, nil
}

// newRetryer returns the SDK's standard retryer, except for lack of capacity: EC2 answers it with a server
// error (HTTP 500), which the SDK would try again for half a minute while another pool may have machines.
func newRetryer(c Config) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = c.MaxAttempts
		final := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if isFinal(err) {
				return aws.FalseTernary
			}
			return aws.UnknownTernary
		})
		o.Retryables = append([]retry.IsErrorRetryable{final}, o.Retryables...)
	})
}
