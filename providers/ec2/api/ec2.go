// Package api is Amazon EC2 as a provisioner.Cloud, on the AWS SDK for Go v2. It is the only package that imports the SDK's EC2 client,
// which is very large.
//
// It only translates: requests into API calls, the API's machines into provisioner.Instance, its error codes into the contract's errors
// (errors.go). It does not know what a machine is for, and cannot distinguish EC2 from other servers of its protocol: the fake cloud is one
// Config.Endpoint away.
//
// EC2 answers from many copies of its state, which need some seconds to agree. Two consequences for a machine that was just launched: List
// includes it even if EC2 does not yet, and Terminate insists when EC2 says that there is no such machine, since it would otherwise stay
// and cost money.
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

// Cloud is EC2 in one region, as seen through one cluster's tag: what is bought there and held. Market has what is for sale, and Account
// what exists for its machines.
type Cloud struct {
	*client
	Market
	Account

	fresh freshMachines
	ends  observedEnds
}

// client is a client of EC2.
type client struct {
	config Config
	api    *ec2.Client
	sts    *sts.Client
	http   *http.Client
}

// Market is what EC2 sells in the region: its zones, its types and their prices, the same for every cluster.
type Market struct{ *client }

// Account is the environment that a cluster did not buy: image, networks, rights and quotas. It is read-only.
type Account struct{ *client }

var _ provisioner.Cloud = (*Cloud)(nil)

// New returns a Cloud. With a loopback endpoint or given credentials it uses neither network nor files; otherwise it finds credentials by
// the SDK's default chain, and fails with provisioner.ErrDenied if there are none.
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
			o.BaseEndpoint = &c.Endpoint // overrides AWS_ENDPOINT_URL_EC2 in the environment
		}
	})
	way.sts = sts.NewFromConfig(sdk, func(o *sts.Options) {
		if local, _ := adapter.IsLocal(c.Endpoint); local { // a fake cloud is all of AWS
			o.BaseEndpoint = &c.Endpoint
		}
	})
	return &Cloud{client: way, Market: Market{way}, Account: Account{way}}, nil
}

// Close closes idle connections. The Cloud remains usable.
func (c *Cloud) Close() { c.http.CloseIdleConnections() }

// Traits returns EC2's capabilities.
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
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient()), // which uses AWS_CA_BUNDLE, and a profile's ca_bundle
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

// newRetryer returns the SDK's standard retryer, except for lack of capacity: EC2 reports it as a server error (HTTP 500), which the SDK
// would retry for half a minute while another pool may have machines.
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
