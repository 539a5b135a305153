package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	ec2 "github.com/tierml/tierml/providers/ec2/api"
	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/providers/kube/api"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
)

// Provider is a Kubernetes cluster.
type Provider struct{ providers.Base }

func init() { providers.Register(Provider{}) }

// Facts returns static facts about clusters. Nodes are billed by the second in most clouds.
func (Provider) Facts() providers.Facts {
	return providers.Facts{
		Provider: Terms, NoBids: true, Books: []market.RuleBook{market.BySecond{Name: rules, Notice: defaultNotice}.Book()},
		Mark: "the label tierml.dev/cluster=", Refused: "the cluster's credentials: a kubeconfig, or the service account of the pod that it runs in",
		End:        "kubectl delete pod {machines}",
		Undoable:   map[string]string{"rebalance": "nothing is recommended beforehand on Kubernetes"},
		Preemption: "has the cluster evict, as a drain of their nodes does,", TermWarns: true,
		SlotsHave: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
			"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"},
	}
}

// Open makes the adapter.
func (Provider) Open(ctx context.Context, job *config.Job, s providers.Session) (providers.Account, error) {
	if s.Played != "" {
		return nil, fmt.Errorf("%w: no cloud on this host plays Kubernetes; docs/kubernetes.md shows a real API server", provisioner.ErrInvalid)
	}
	cloud, err := openFound(ctx, job, s)
	if err != nil {
		return nil, err
	}
	b := blockOf(job)
	return account{
		Plain: providers.Plain{Cloud: cloud, Planned: providers.PlannedPrices(s.Offers),
			Controllerless: "on Kubernetes a job server is installed with the chart in deploy/kubernetes/chart: docs/kubernetes.md"},
		role: ec2.StoreRole{Region: b.Region, ARN: b.StoreRole}, tokens: gce.StoreTokens{Give: b.StoreTokens},
	}, nil
}

// account gives runs credentials of the cloud whose store they use.
type account struct {
	providers.Plain
	role   ec2.StoreRole
	tokens gce.StoreTokens
}

// RunKeys returns credentials for the run's own folder in S3 or Google's store.
func (a account) RunKeys(ctx context.Context, run string, folder location.Place) (blob.Keys, bool, error) {
	if folder.Scheme() == "gs" {
		return a.tokens.RunKeys(ctx, run, folder)
	}
	return a.role.RunKeys(ctx, run, folder)
}

// openFound opens a cluster, and sets what the job leaves open from its nodes.
func openFound(ctx context.Context, job *config.Job, s providers.Session) (*api.Cloud, error) {
	cloud, err := open(job, s)
	if err != nil || complete(job) {
		return cloud, err
	}
	nodes, err := cloud.Nodes(ctx)
	if err != nil {
		return nil, untold(job, err)
	}
	if err := find(job, nodes); err != nil {
		return nil, err
	}
	return open(job, s)
}

func open(job *config.Job, s providers.Session) (*api.Cloud, error) {
	b := blockOf(job)
	client, err := api.Connect(api.Access{Kubeconfig: b.Kubeconfig, Context: b.Context, Endpoint: b.Endpoint})
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w: %w", provisioner.ErrDenied, err)
	}
	return api.New(api.Config{
		Client: client, Namespace: b.Namespace, Region: cmp.Or(b.Region, api.AnyZone), Cluster: b.Cluster, Job: s.Run, Owner: b.Owner, Image: b.Image,
		ServiceAccount: b.ServiceAccount, PriorityClass: b.PriorityClass, CPU: b.CPU, MemoryMiB: b.Memory.MiB, DiskMiB: b.Disk.MiB,
		Extended: b.Resources, Patch: b.Pod, Nodes: api.Nodes(b.Nodes), Queue: b.Queue, Gang: b.Gang, Notice: b.Notice, Expires: s.Expires, Clock: s.Clock, Log: s.Log,
	})
}

// Market returns the prices of the cluster's nodes.
func (Provider) Market(ctx context.Context, job *config.Job, _ string) (*local.Market, error) {
	cloud, err := openFound(ctx, job, providers.Session{})
	if err != nil {
		return nil, err
	}
	return soldTo(ctx, job, cloud)
}

// Try has the API server check a pod of each pool, without making any.
func (Provider) Try(ctx context.Context, job *config.Job, pools []market.Pool) (string, error) {
	cloud, err := openFound(ctx, job, providers.Session{})
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

// Checks returns the checks of a job with cloud: kubernetes.
func (Provider) Checks(job *config.Job) []doctor.Check {
	return checks(job, func() (doctorAPI, error) { return open(job, providers.Session{}) })
}

// Pace returns short intervals: the API server is near, and prices are the plan's.
func (Provider) Pace(*config.Job) providers.Pace {
	return providers.Pace{Prices: 5 * time.Second, Calls: time.Minute, Lease: time.Hour}
}

// Boot returns nothing: images contain the program.
func (Provider) Boot(*config.Installation) providers.Boot { return providers.Boot{} }

// Metadata returns a pod's inputs: its environment, a Secret, and SIGTERM.
func (Provider) Metadata(m clock.Mapping, log *slog.Logger) node.Machine {
	return providers.Given{ID: os.Getenv(api.EnvPod), Type: os.Getenv(api.EnvType), UserDataFile: filepath.Join(os.Getenv(api.EnvSecret), api.UserDataKey),
		Warnings: func(ctx context.Context, f func(tiers.Warned)) error { return warnings(ctx, m, log, f) }}
}

// warnings passes SIGTERM on: the kubelet sends it when a pod's grace period begins, whatever ends the pod.
func warnings(ctx context.Context, m clock.Mapping, log *slog.Logger, f func(tiers.Warned)) error {
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
			log.Info("the pod will be ended", "within", notice)
			f(tiers.Warned{Deadline: m.At(clock.Wall().Add(notice))})
		}
	}
}
