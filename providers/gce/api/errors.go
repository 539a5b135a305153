package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// This file is the only place that knows Compute Engine's error codes. Calls are refused with an HTTP status and a reason
// (https://docs.cloud.google.com/compute/docs/api/how-tos/errors-api); operations fail later, with a code in capitals
// (https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability).

var codes = map[string]error{
	// Codes of operations.
	"ZONE_RESOURCE_POOL_EXHAUSTED":              provisioner.ErrNoCapacity,
	"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": provisioner.ErrNoCapacity,
	"RESOURCE_POOL_EXHAUSTED":                   provisioner.ErrNoCapacity,
	"STOCKOUT":                                  provisioner.ErrNoCapacity,
	"VM_MIN_COUNT_NOT_REACHED":                  provisioner.ErrNoCapacity,

	"QUOTA_EXCEEDED":                  provisioner.ErrLimit,
	"LIMIT_EXCEEDED":                  provisioner.ErrLimit,
	"IP_SPACE_EXHAUSTED":              provisioner.ErrLimit,
	"IP_SPACE_EXHAUSTED_WITH_DETAILS": provisioner.ErrLimit,

	"RATE_LIMIT_EXCEEDED":              provisioner.ErrThrottled,
	"RESOURCE_OPERATION_RATE_EXCEEDED": provisioner.ErrThrottled,

	"INTERNAL_ERROR":             provisioner.ErrTemporary,
	"RESOURCE_NOT_READY":         provisioner.ErrTemporary,
	"RESOURCE_IN_USE":            provisioner.ErrTemporary,
	"OPERATION_CANCELED_BY_USER": provisioner.ErrTemporary,

	"RESOURCE_NOT_FOUND":      provisioner.ErrNotFound,
	"RESOURCE_ALREADY_EXISTS": provisioner.ErrInvalid,
	"INVALID_USAGE":           provisioner.ErrInvalid,
	"INVALID_FIELD_VALUE":     provisioner.ErrInvalid,
	"UNSUPPORTED_OPERATION":   provisioner.ErrInvalid,
	"CONDITION_NOT_MET":       provisioner.ErrInvalid,
	"PERMISSIONS_ERROR":       provisioner.ErrDenied,

	// Reasons of refused calls.
	"quotaExceeded":           provisioner.ErrLimit,
	"limitExceeded":           provisioner.ErrLimit,
	"rateLimitExceeded":       provisioner.ErrThrottled,
	"userRateLimitExceeded":   provisioner.ErrThrottled,
	"backendError":            provisioner.ErrTemporary,
	"internalError":           provisioner.ErrTemporary,
	"resourceNotReady":        provisioner.ErrTemporary,
	reasonNotFound:            provisioner.ErrNotFound,
	"invalid":                 provisioner.ErrInvalid,
	"required":                provisioner.ErrInvalid,
	"badRequest":              provisioner.ErrInvalid,
	"parseError":              provisioner.ErrInvalid,
	"alreadyExists":           provisioner.ErrInvalid,
	"conditionNotMet":         provisioner.ErrInvalid,
	"authError":               provisioner.ErrDenied,
	"forbidden":               provisioner.ErrDenied,
	"accessNotConfigured":     provisioner.ErrDenied,
	"insufficientPermissions": provisioner.ErrDenied,
}

const reasonNotFound = "notFound"

// hints tell a person what to do.
var hints = map[string]string{
	"QUOTA_EXCEEDED":          "ask for more of it on the console's page Quotas, or want fewer machines; Spot machines have a quota of their own",
	"quotaExceeded":           "ask for more of it on the console's page Quotas, or want fewer machines; Spot machines have a quota of their own",
	"IP_SPACE_EXHAUSTED":      "name a larger subnetwork",
	"RESOURCE_ALREADY_EXISTS": "the token has been used for another request",
	"alreadyExists":           "the token has been used for another request",
	"authError":               "log in: gcloud auth application-default login",
	"forbidden":               "the account needs the role Compute Instance Admin (v1), and Service Account User for the machines' own account",
	"PERMISSIONS_ERROR":       "the account needs the role Compute Instance Admin (v1), and Service Account User for the machines' own account",
	"accessNotConfigured":     "enable the API: gcloud services enable compute.googleapis.com",
}

// kindOfStatus classifies an error without a known reason; nil = unknown.
func kindOfStatus(status int) error {
	switch {
	case status == http.StatusTooManyRequests:
		return provisioner.ErrThrottled
	case status >= http.StatusInternalServerError, status == http.StatusRequestTimeout:
		return provisioner.ErrTemporary
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return provisioner.ErrDenied
	case status == http.StatusNotFound:
		return provisioner.ErrNotFound
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return provisioner.ErrInvalid
	}
	return nil
}

// failure wraps the error of an API call once: with the action that failed and the contract's error.
func failure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	if done, ok := errors.AsType[*adapter.Answer](err); ok {
		return done
	}
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		e := &adapter.Answer{Doing: doing, Code: fmt.Sprintf("HTTP %d", answer.Code), Message: answer.Message, Err: err}
		if len(answer.Errors) > 0 {
			e.Code = answer.Errors[0].Reason
		}
		if e.Kind = codes[e.Code]; e.Kind == nil {
			e.Kind = kindOfStatus(answer.Code)
		}
		e.Hint = hints[e.Code]
		return e
	}
	if _, broken := errors.AsType[*url.Error](err); broken || isNetwork(err) || errors.Is(err, context.DeadlineExceeded) || isTorn(err) {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// isTorn reports whether a response was cut off.
func isTorn(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, proto.Error)
}

func isNotFound(err error) bool { return errors.Is(err, provisioner.ErrNotFound) }

// operationFailure returns the error of a finished operation; nil = success. Of several errors it picks the first that
// tells what to do: a lack of capacity, rather than the least number that was missed because of it.
func operationFailure(doing string, op *computepb.Operation) error {
	if op.GetError() == nil && op.GetHttpErrorStatusCode() < http.StatusBadRequest {
		return nil
	}
	e := &adapter.Answer{Doing: doing, Code: fmt.Sprintf("HTTP %d", op.GetHttpErrorStatusCode()), Message: op.GetHttpErrorMessage(),
		Kind: kindOfStatus(int(op.GetHttpErrorStatusCode()))}
	for i, one := range op.GetError().GetErrors() {
		kind := codes[one.GetCode()]
		if kind == nil && strings.HasPrefix(one.GetCode(), "INVALID_") {
			kind = provisioner.ErrInvalid
		}
		if i == 0 || e.Kind == nil && kind != nil {
			e.Code, e.Message = one.GetCode(), one.GetMessage()
			if kind != nil {
				e.Kind = kind
			}
		}
	}
	e.Hint = hints[e.Code]
	return e
}
