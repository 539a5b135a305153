package api

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Client is the part of an API server that a Cloud calls. client-go's clientset has the same methods for every kind of
// every API group: for a few kinds it made the program 35 MB larger, and slower to start.
type Client struct {
	Pods       func(namespace string) Objects[*corev1.Pod, *corev1.PodList]
	Secrets    func(namespace string) Objects[*corev1.Secret, *corev1.SecretList]
	ConfigMaps func(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList]
	Nodes      func() Objects[*corev1.Node, *corev1.NodeList]
	Events     func(namespace string) Objects[*corev1.Event, *corev1.EventList]
	// Protect makes a disruption budget.
	Protect func(context.Context, *policyv1.PodDisruptionBudget) error
	// Evict calls the Eviction API.
	Evict func(context.Context, *policyv1.Eviction) error
	// Review checks whether this account may make a call.
	Review func(context.Context, *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error)
	// Version returns the API server's version.
	Version func(context.Context) (string, error)
}

// Objects are the objects of one kind, in one namespace if the kind has namespaces.
type Objects[T, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// NewClient makes a client. It calls no API.
func NewClient(config *rest.Config) (Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return Client{}, err
		}
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	server, err := rest.RESTClientFor(config)
	if err != nil {
		return Client{}, err
	}
	k := kinds{server, runtime.NewParameterCodec(scheme)}
	return Client{
		Pods: func(namespace string) Objects[*corev1.Pod, *corev1.PodList] {
			return objects[corev1.Pod, corev1.PodList](k, "pods", namespace)
		},
		Secrets: func(namespace string) Objects[*corev1.Secret, *corev1.SecretList] {
			return objects[corev1.Secret, corev1.SecretList](k, "secrets", namespace)
		},
		ConfigMaps: func(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
			return objects[corev1.ConfigMap, corev1.ConfigMapList](k, "configmaps", namespace)
		},
		Nodes: func() Objects[*corev1.Node, *corev1.NodeList] {
			return objects[corev1.Node, corev1.NodeList](k, "nodes", "")
		},
		Events: func(namespace string) Objects[*corev1.Event, *corev1.EventList] {
			return objects[corev1.Event, corev1.EventList](k, "events", namespace)
		},
		Protect: func(ctx context.Context, b *policyv1.PodDisruptionBudget) error {
			return server.Post().AbsPath("/apis/policy/v1").Namespace(b.Namespace).Resource("poddisruptionbudgets").Body(b).Do(ctx).Error()
		},
		Evict: func(ctx context.Context, e *policyv1.Eviction) error {
			return server.Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").Body(e).Do(ctx).Error()
		},
		Review: func(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
			answer := &authorizationv1.SelfSubjectAccessReview{}
			return answer, server.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").Body(r).Do(ctx).Into(answer)
		},
		Version: func(ctx context.Context) (string, error) {
			body, err := server.Get().AbsPath("/version").Do(ctx).Raw()
			if err != nil {
				return "", err
			}
			var version struct{ GitVersion string }
			if err := json.Unmarshal(body, &version); err != nil {
				return "", fmt.Errorf("the API server's version is no JSON: %w", err)
			}
			return version.GitVersion, nil
		},
	}, nil
}

// kinds has what is needed to call objects of all kinds.
type kinds struct {
	server rest.Interface
	codec  runtime.ParameterCodec
}

// pointer is a pointer to an object or a list of a kind.
type pointer[T any] interface {
	*T
	runtime.Object
}

type object[T any] interface {
	pointer[T]
	metav1.Object
}

func objects[T, L any, P object[T], Q pointer[L]](k kinds, resource, namespace string) *gentype.ClientWithList[P, Q] {
	return gentype.NewClientWithList(resource, k.server, k.codec, namespace, func() P { return new(T) }, func() Q { return new(L) })
}
