//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is a Kubernetes cluster.
type Provider struct{}

// Facts is what is to be known of clusters as data. Seconds are what clouds bill nodes by.
func (Provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: Terms, NoBids: true, Books: []market.RuleBook{market.BySecond{Name: rules, Notice: defaultNotice}.Book()},
		Mark: "the label tierml.dev/cluster=", Refused: "the cluster's credentials: a kubeconfig, or the service account of the pod that it runs in",
		Undoable:   map[string]string{"rebalance": "nothing is recommended beforehand on Kubernetes"},
		Preemption: "has the cluster evict, as a drain of their nodes does,", TermWarns: true,
	}
}

// Open makes the adapter.
func (Provider) Open(_ context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	if s.Played != "" {
		return nil, fmt.Errorf("%w: no cloud on this host plays Kubernetes; docs/kubernetes.md shows a real API server", provisioner.ErrInvalid)
	}
	cloud, err := open(job, s)
	if err != nil {
		return nil, err
	}
	a := account{cloud, map[market.Pool]*market.History{}}
	for _, o := range s.Offers {
		a.prices[o.Pool] = o.History
	}
	return a, nil
}

func open(job *config.Job, s providers.Session) (*api.Cloud, error) {
	b := of(job)
	client, err := api.Connect(api.Access{Kubeconfig: b.Kubeconfig, Context: b.Context, Endpoint: b.Endpoint})
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w: %w", provisioner.ErrDenied, err)
	}
	return api.New(api.Config{
		Client: client, Namespace: b.Namespace, Region: b.Region, Cluster: b.Cluster, Job: s.Run, Owner: b.Owner, Image: b.Image,
		ServiceAccount: b.ServiceAccount, PriorityClass: b.PriorityClass, CPU: b.CPU, MemoryMiB: b.Memory.MiB, DiskMiB: b.Disk.MiB,
		Nodes: api.Nodes(b.Nodes), Queue: b.Queue, Notice: b.Notice, Expires: s.Expires, Clock: s.Clock, Log: s.Log,
	})
}

// account is a run's access to a cluster, with the prices of its plan: a cluster reports none.
type account struct {
	*api.Cloud
	prices map[market.Pool]*market.History
}

func (a account) SpotPrices(_ context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	prices := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		h := a.prices[p]
		if h == nil {
			continue // unknown
		}
		if inForce, ok := h.Until(since).Last(); ok {
			prices[p] = append(prices[p], inForce)
		}
		prices[p] = append(prices[p], h.Points(since, until)...)
	}
	return prices, nil
}

// Controllers are not started by the command here: the chart installs one.
func (account) Controllers(context.Context) ([]provisioner.Controller, error) { return nil, nil }

func (account) StartController(context.Context, provisioner.ControllerRequest) (provisioner.Controller, error) {
	return provisioner.Controller{}, fmt.Errorf("%w: on Kubernetes a controller is installed with the chart in deploy/kubernetes/chart: docs/kubernetes.md", provisioner.ErrInvalid)
}

func (account) EndController(context.Context, provisioner.Controller) error { return nil }

// Market is what the cluster's nodes cost.
func (Provider) Market(ctx context.Context, job *config.Job, _ string) (*local.Market, error) {
	cloud, err := open(job, providers.Session{})
	if err != nil {
		return nil, err
	}
	return soldTo(ctx, job, cloud)
}

// Try has the API server look at a pod of each pool, without making any.
func (Provider) Try(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	cloud, err := open(job, providers.Session{})
	if err != nil {
		return "", err
	}
	tried := map[market.Pool]bool{}
	for _, p := range pools {
		if tried[p] {
			continue
		}
		if err := cloud.Try(ctx, p); err != nil {
			return "", err
		}
		tried[p] = true
	}
	return fmt.Sprintf("The cluster admits pods of all %d pools (dry run). Whether nodes are to be had for them shows when they wait.", len(tried)), nil
}

// Checks are those of a job with cloud: kubernetes.
func (Provider) Checks(job *config.Job) []doctor.Check {
	return checks(job, func() (doctorAPI, error) { return open(job, providers.Session{}) })
}

// Pace: the API server is near, and prices are those of the plan.
func (Provider) Pace(*config.Job) providers.Pace {
	return providers.Pace{Prices: 5 * time.Second, Calls: time.Minute, Lease: time.Hour}
}

// Boot is nothing: images have the program.
func (Provider) Boot(*config.Installation) providers.Boot { return providers.Boot{} }

// Place is nothing: see StartController.
func (Provider) Place(*config.Job) (network, zones []string) { return nil, nil }

// Metadata is what a pod was given: its environment, a Secret, and SIGTERM.
func (Provider) Metadata(m clock.Mapping, log *slog.Logger) node.Machine { return metadata{m, log} }

type metadata struct {
	mapping clock.Mapping
	log     *slog.Logger
}

func (metadata) Identity(context.Context) (node.Identity, error) {
	name := os.Getenv(api.EnvPod)
	if name == "" {
		return node.Identity{}, errors.New(api.EnvPod + " is not set: this is no pod of a run")
	}
	return node.Identity{Instance: ps.ServerID(name), Type: os.Getenv(api.EnvType)}, nil
}

func (metadata) UserData(context.Context) (string, error) {
	text, err := os.ReadFile(filepath.Join(os.Getenv(api.EnvSecret), api.UserDataKey))
	return string(text), err
}

// Watch passes SIGTERM on as a warning: the kubelet sends it at the beginning of a pod's grace, whoever ends the pod.
func (m metadata) Watch(ctx context.Context, f func(tiers.Warned)) error {
	notice, err := time.ParseDuration(os.Getenv(api.EnvNotice))
	if err != nil {
		notice = defaultNotice
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			m.log.Info("the pod will be ended", "within", notice)
			f(tiers.Warned{Deadline: m.mapping.At(clock.Wall().Add(notice))})
		}
	}
}
