package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// This file is the only place that knows EC2's error codes
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html).

const (
	codeInstanceNotFound   = "InvalidInstanceID.NotFound"
	codeTokenOfTheDeparted = "IdempotentInstanceTerminated"
	codeWouldSucceed       = "DryRunOperation"
)

var codes = map[string]error{
	"InsufficientInstanceCapacity":         provisioner.ErrNoCapacity,
	"InsufficientCapacity":                 provisioner.ErrNoCapacity,
	"InsufficientHostCapacity":             provisioner.ErrNoCapacity,
	"InsufficientReservedInstanceCapacity": provisioner.ErrNoCapacity,
	"UnfulfillableCapacity":                provisioner.ErrNoCapacity,

	"SpotMaxPriceTooLow": provisioner.ErrPriceTooLow,

	"MaxSpotInstanceCountExceeded":      provisioner.ErrLimit,
	"VcpuLimitExceeded":                 provisioner.ErrLimit,
	"InstanceLimitExceeded":             provisioner.ErrLimit,
	"VolumeLimitExceeded":               provisioner.ErrLimit,
	"InsufficientFreeAddressesInSubnet": provisioner.ErrLimit,

	"RequestLimitExceeded":     provisioner.ErrThrottled,
	"Throttling":               provisioner.ErrThrottled,
	"ThrottlingException":      provisioner.ErrThrottled,
	"ThrottledException":       provisioner.ErrThrottled,
	"EC2ThrottledException":    provisioner.ErrThrottled,
	"RequestThrottled":         provisioner.ErrThrottled,
	"TooManyRequestsException": provisioner.ErrThrottled,
	"SlowDown":                 provisioner.ErrThrottled,

	"InternalError":       provisioner.ErrTemporary,
	"InternalFailure":     provisioner.ErrTemporary,
	"ServerInternal":      provisioner.ErrTemporary,
	"Unavailable":         provisioner.ErrTemporary,
	"ServiceUnavailable":  provisioner.ErrTemporary,
	"RequestTimeout":      provisioner.ErrTemporary,
	"IncorrectSpotStatus": provisioner.ErrTemporary,

	"IdempotentParameterMismatch": provisioner.ErrInvalid,
	codeTokenOfTheDeparted:        provisioner.ErrInvalid,
	"MissingParameter":            provisioner.ErrInvalid,
	"UnknownParameter":            provisioner.ErrInvalid,
	"MalformedQueryString":        provisioner.ErrInvalid,
	"Unsupported":                 provisioner.ErrInvalid,
	"UnsupportedOperation":        provisioner.ErrInvalid,
	"ValidationError":             provisioner.ErrInvalid,
	"TagLimitExceeded":            provisioner.ErrInvalid,

	"AccessDeniedException":       provisioner.ErrDenied, // of the Price List
	"UnauthorizedOperation":       provisioner.ErrDenied,
	"OperationNotPermitted":       provisioner.ErrDenied,
	"AuthFailure":                 provisioner.ErrDenied,
	"InvalidClientTokenId":        provisioner.ErrDenied,
	"UnrecognizedClientException": provisioner.ErrDenied,
	"SignatureDoesNotMatch":       provisioner.ErrDenied,
	"IncompleteSignature":         provisioner.ErrDenied,
	"MissingAuthenticationToken":  provisioner.ErrDenied,
	"ExpiredToken":                provisioner.ErrDenied,
	"RequestExpired":              provisioner.ErrDenied,
	"OptInRequired":               provisioner.ErrDenied,
	"PendingVerification":         provisioner.ErrDenied,
	"Blocked":                     provisioner.ErrDenied,
}

const serviceLinkedRole = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"

// hints tell a person what to do about an error.
var hints = map[string]string{
	"MaxSpotInstanceCountExceeded":      "ask AWS Service Quotas for more spot vCPUs, or want fewer machines",
	"VcpuLimitExceeded":                 "ask AWS Service Quotas for more vCPUs, or want fewer machines",
	"InstanceLimitExceeded":             "ask AWS Service Quotas for more instances, or want fewer machines",
	"InsufficientFreeAddressesInSubnet": "name a larger subnet for this zone",
	"IdempotentParameterMismatch":       "the token has been used for another request",
	codeTokenOfTheDeparted:              "the machines of this token have ended",
	"Unsupported":                       "this type is not offered in this zone",
	"UnauthorizedOperation":             "the role needs ec2:RunInstances, CreateFleet and its launch templates, TerminateInstances, CreateTags and Describe*: see terraform/aws",
	"OperationNotPermitted":             "is the machine protected against termination?",
	"InvalidClientTokenId":              "are these credentials of this account and region?",
	"SignatureDoesNotMatch":             "check the secret access key",
	"ExpiredToken":                      "log in again",
	"RequestExpired":                    "is this machine's clock right?",
	"InvalidAMIID.NotFound":             "images belong to one region: name one of this region",
	serviceLinkedRole:                   "run once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
}

// kindOf maps a code to one of the contract's errors; nil = unknown.
func kindOf(code string) error {
	if kind, ok := codes[code]; ok {
		return kind
	}
	switch {
	case strings.HasPrefix(code, "AuthFailure."):
		return provisioner.ErrDenied
	case strings.HasSuffix(code, ".NotFound"):
		return provisioner.ErrNotFound
	case strings.HasPrefix(code, "Invalid"):
		return provisioner.ErrInvalid
	}
	return nil
}

// codeOf returns EC2's code in an error; "" = EC2 did not answer with one.
func codeOf(err error) string {
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		return answer.ErrorCode()
	}
	return ""
}

// isFinal reports that retrying the same call immediately is useless, whatever its HTTP status.
func isFinal(err error) bool {
	kind := kindOf(codeOf(err))
	return kind != nil && !provisioner.Retryable(kind)
}

// failure wraps the error of an API call once, adding the attempted operation and the contract's error.
func failure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		e := &adapter.Answer{Doing: doing, Kind: kindOf(answer.ErrorCode()), Code: answer.ErrorCode(),
			Message: answer.ErrorMessage(), Hint: hints[answer.ErrorCode()], Err: err}
		if e.Kind == nil && answered && response.HTTPStatusCode() >= http.StatusInternalServerError {
			e.Kind = provisioner.ErrTemporary
		}
		if id, ok := errors.AsType[interface {
			error
			ServiceRequestID() string
		}](err); ok {
			e.Request = id.ServiceRequestID()
		}
		return e
	}
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, torn := errors.AsType[*smithy.DeserializationError](err) // the connection broke in the middle of a response
	if unsent || torn || answered && response.HTTPStatusCode() >= http.StatusInternalServerError {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
