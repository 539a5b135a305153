package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierml/tierml/internal/marked"
)

// Limits on answers: metadata values are short, user data at most 16 KiB.
const (
	maxValue    = 4 << 10
	maxUserData = 64 << 10
)

// The service is on the machine's own host: an answer that takes longer will not come.
const (
	dialTimeout   = time.Second
	answerTimeout = 2 * time.Second
	// questionTimeout covers all tries.
	questionTimeout = 5 * time.Second
)

// Tries per query: a watch polls again soon anyway, and must not be late for the next one.
const (
	watchAttempts = 2
	readAttempts  = 5
)

// service is the instance metadata service.
type service struct {
	client    *imds.Client
	transport *http.Transport
}

// newService makes a client with that many tries per query; close it after use. They must be at least two:
// a refusal reveals an outdated session token.
func newService(c Config, attempts int) *service {
	transport := &http.Transport{ // no proxy: the service is this machine's own
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return marked.Dial(ctx, network, address) // a machine that is a process has its service on its host
		},
		ResponseHeaderTimeout: answerTimeout,
	}
	client := imds.New(imds.Options{
		Endpoint:       cmp.Or(c.Endpoint, os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")), // as the SDK finds it
		HTTPClient:     &http.Client{Transport: transport},
		Retryer:        retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = attempts }),
		EnableFallback: aws.FalseTernary, // never version 1, which would answer requests that others trick us into sending
	})
	return &service{client: client, transport: transport}
}

func (s *service) close() { s.transport.CloseIdleConnections() }

// get reads a value; found is false if the service has none, which is normal for notices.
func (s *service) get(ctx context.Context, path string) (value string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	out, err := s.client.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if isNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", path, late(ctx, err))
	}
	content, err := readAll(out.Content, maxValue)
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", path, err)
	}
	return strings.TrimSpace(string(content)), true, nil
}

// must reads a value that every machine has.
func (s *service) must(ctx context.Context, path string) (string, error) {
	value, found, err := s.get(ctx, path)
	if err == nil && (!found || value == "") {
		err = fmt.Errorf("%s: the service has no value", path)
	}
	return value, err
}

func (s *service) userData(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	out, err := s.client.GetUserData(ctx, &imds.GetUserDataInput{})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, late(ctx, err)
	}
	return readAll(out.Content, maxUserData)
}

// late adds to an error that time ran out, which the library omits when it requests its token.
func late(ctx context.Context, err error) error {
	if why := ctx.Err(); why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

func readAll(body io.ReadCloser, most int64) ([]byte, error) {
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("the answer has more than %d bytes", most)
	}
	return content, err
}

func isNotFound(err error) bool {
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && response.HTTPStatusCode() == http.StatusNotFound
}
