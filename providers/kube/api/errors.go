package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Only this file knows the API server's reasons (metav1.StatusReason).

// kindOf classifies a refusal; nil = unknown. A quota of the namespace, a missing service account or priority class
// and a namespace that is being deleted are all reported as Forbidden.
func kindOf(err error) (hint string, kind error) {
	text := err.Error()
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"):
		return "the namespace's ResourceQuota is used up: kubectl describe resourcequota", provisioner.ErrLimit
	case apierrors.IsForbidden(err) && strings.Contains(text, "serviceaccount") && strings.Contains(text, "not found"):
		return "create the service account, or write another in kubernetes.service_account", provisioner.ErrNotFound
	case apierrors.IsForbidden(err) && strings.Contains(text, "no PriorityClass with name"):
		return "create the PriorityClass, or write another in kubernetes.priority_class or kubernetes.pod", provisioner.ErrNotFound
	case apierrors.IsForbidden(err) && strings.Contains(text, "violates PodSecurity"):
		return "the namespace's Pod Security Standard refuses the pod", provisioner.ErrInvalid
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return "the namespace is being deleted", provisioner.ErrNotFound
	case apierrors.IsForbidden(err):
		return "bind the role of deploy/kubernetes to this account; `tierml doctor` lists what is missing", provisioner.ErrDenied
	case apierrors.IsUnauthorized(err):
		return "log in to the cluster: does `kubectl get pods` work?", provisioner.ErrDenied
	case apierrors.IsNotFound(err):
		return "", provisioner.ErrNotFound
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsAlreadyExists(err):
		return "", provisioner.ErrInvalid
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return "the disruption budget of reliable pods refuses it; delete the pod, or wait", provisioner.ErrInvalid
	case apierrors.IsTooManyRequests(err):
		return "", provisioner.ErrThrottled
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsUnexpectedServerError(err), apierrors.IsConflict(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return "", provisioner.ErrTemporary
	}
	return "", nil
}

// failure wraps the error of a call once: with the action that failed and the contract's error.
func failure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	if done, ok := errors.AsType[*adapter.Answer](err); ok {
		return done
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		hint, kind := kindOf(err)
		return &adapter.Answer{Doing: doing, Kind: kind, Code: string(status.Status().Reason), Message: status.Status().Message, Hint: hint, Err: err}
	}
	_, broken := errors.AsType[*url.Error](err)
	if _, network := errors.AsType[net.Error](err); broken || network || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// annotate returns a merge patch that sets annotations.
func annotate(values map[string]string) []byte {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return patch
}
