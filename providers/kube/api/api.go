package api

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/provisioner"
)

// Provider is the name in pools.
const Provider = "kubernetes"

// Config configures a Cloud.
type Config struct {
	Client         Client // Required.
	Namespace      string // Required.
	Region         string // of the pools. Required.
	Cluster        string // what List and Notify see. Required.
	Job            string // the run that owns these machines; empty = all of the cluster's, and nothing can be launched
	Owner          string
	Image          string // what pods run. Required for launches.
	ServiceAccount string // of the pods; empty = the namespace's default
	PriorityClass  string // of on-demand pods
	CPU            int    // whole vCPUs that a pod requests
	MemoryMiB      int64
	DiskMiB        int64
	Extended       map[string]int // extended resources that a pod requests, such as nvidia.com/gpu
	Patch          map[string]any // merged into pods; has passed CheckPatch
	Nodes          Nodes          // which node labels have types, zones and terms
	Queue          string         // Kueue's local queue; empty = none
	Gang           bool           // Kueue admits the pods of a launch together
	Notice         time.Duration
	Expires        time.Time // when the cluster itself ends pods (activeDeadlineSeconds); zero = never
	Resync         time.Duration
	Clock          clock.Mapping
	Log            *slog.Logger
}

// Cloud is a cluster's pods of one run, or of all runs of a TierML cluster. It is safe for concurrent use.
type Cloud struct {
	provisioner.Basic
	config Config
	seen   memory
	tokens tokens
}

// resync is how often the pods are listed when the watch reports no change.
const resync = time.Minute

// New makes a Cloud. It calls no API.
func New(c Config) (*Cloud, error) {
	if c.Client.Pods == nil || c.Namespace == "" || c.Region == "" || c.Cluster == "" {
		return nil, errors.New("kubernetes: Client, Namespace, Region and Cluster must be set")
	}
	if c.Clock == (clock.Mapping{}) {
		c.Clock = clock.Real()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Resync <= 0 {
		c.Resync = resync
	}
	return &Cloud{config: c, seen: newMemory(), tokens: tokens{busy: map[string]chan struct{}{}}}, nil
}

// Traits returns the traits of clusters: there are no bids, and pods carry their lease in an annotation.
func (c *Cloud) Traits() provisioner.Traits {
	return provisioner.Traits{Provider: Provider, NoticeLength: c.config.Notice, MaxLaunch: maxLaunch, MaxUserData: maxUserData,
		Leases: true, Preempts: true, Leftovers: true}
}

const (
	maxLaunch   = 500
	maxUserData = 512 << 10 // a Secret has at most 1 MiB
)

// Access configures how the API server is reached.
type Access struct {
	Kubeconfig string // file; empty = KUBECONFIG, the user's own, or inside a pod its service account
	Context    string // context in the file; empty = its current one
	Endpoint   string // address that replaces the file's
}

// Connect makes a client. It calls no API.
func Connect(a Access) (Client, error) {
	config, err := a.restConfig()
	if err != nil {
		return Client{}, err
	}
	// The client's own limit is 5 calls per second, and a launch of many pods makes one call each.
	config.QPS, config.Burst = 50, 100
	config.UserAgent = "tierml"
	return NewClient(config)
}

func (a Access) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if a.Kubeconfig != "" {
		rules.ExplicitPath = a.Kubeconfig
	} else if inCluster, err := rest.InClusterConfig(); err == nil && a.Context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return inCluster, nil
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context}
	overrides.ClusterInfo.Server = a.Endpoint
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}

// Version asks the API server for its version, which any account may do.
func (c *Cloud) Version(ctx context.Context) (string, error) {
	version, err := c.config.Client.Version(ctx)
	if err != nil {
		return "", failure(ctx, "asking the API server for its version", err)
	}
	return version, nil
}
