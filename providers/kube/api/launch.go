package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tierml/tierml/provisioner"
)

// Launch makes the pods of a request: if needed, the run's ConfigMap; then the launch's Secret with the request; then
// the pods behind a gate; then a remark in the Secret that all were made; and finally it opens the gates. Each step can
// be repeated after a crash: existing objects are found by name, and after the remark nothing more is made, whatever
// has happened to the pods. Before the remark no pod has had a node, so that a pod which was deleted meanwhile and is
// made again does not run twice.
//
// Pods wait for a node, or for a queue's quota, after Launch has returned: they are pending then.
func (c *Cloud) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	doing := fmt.Sprintf("launching %d of %s", r.Count, r.Pool)
	if err := c.validate(r); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	leave, err := c.tokens.enter(ctx, r.Token)
	if err != nil {
		return nil, failure(ctx, doing, err)
	}
	defer leave()
	secret, err := c.intend(ctx, r)
	if err != nil {
		return nil, failure(ctx, doing, err)
	}
	if n, _ := readNote(secret.Annotations[noteRequest]); n.Mark != noteOf(r).Mark {
		return nil, fmt.Errorf("%s: %w: the token has been used for another request", doing, provisioner.ErrInvalid)
	}
	if len(secret.OwnerReferences) != 1 {
		return nil, failure(ctx, doing, errors.New("the launch's Secret has lost its owner"))
	}
	made, over := launched(secret)
	if !over {
		if err := c.protect(ctx, r, secret); err != nil {
			return nil, failure(ctx, doing, err)
		}
		if made, err = c.makePods(ctx, r, secret); err == nil || made > 0 && provisioner.Definite(failure(ctx, doing, err)) {
			c.leaveEvent(ctx, secret.OwnerReferences[0], corev1.EventTypeNormal, "Launched", fmt.Sprintf("%d of %d pods of %s: %s-*", made, r.Count, r.Pool, secret.Name))
			if err = c.settle(ctx, r, secret.Name); err == nil {
				err = c.remark(ctx, secret.Name, made)
			}
		} else {
			c.leaveEvent(ctx, secret.OwnerReferences[0], corev1.EventTypeWarning, "LaunchFailed", failure(ctx, doing, err).Error())
		}
		if err != nil {
			return nil, failure(ctx, doing, err)
		}
	}
	return c.ofLaunch(ctx, r, secret, made)
}

// launched returns how many pods a launch made, if it is complete.
func launched(secret *corev1.Secret) (made int, over bool) {
	made, err := strconv.Atoi(secret.Annotations[noteLaunched])
	return made, err == nil
}

// intend writes the request to the launch's Secret, or finds it there.
func (c *Cloud) intend(ctx context.Context, r provisioner.Request) (*corev1.Secret, error) {
	owner, err := c.owner(ctx)
	if err != nil {
		return nil, err
	}
	secrets := c.config.Client.Secrets(c.config.Namespace)
	immutable := true
	wanted := &corev1.Secret{ObjectMeta: c.meta(r, launchName(c.config.Cluster, c.config.Job, r.Token), owner), Immutable: &immutable,
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{UserDataKey: []byte(r.UserData)}}
	made, err := secrets.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return secrets.Get(ctx, wanted.Name, metav1.GetOptions{})
	}
	return made, err
}

// owner makes the run's ConfigMap, or finds it.
func (c *Cloud) owner(ctx context.Context) (metav1.OwnerReference, error) {
	maps := c.config.Client.ConfigMaps(c.config.Namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: c.ownerMeta(ownerName(c.config.Cluster, c.config.Job))}
	found, err := maps.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if found, err = maps.Create(ctx, wanted, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			found, err = maps.Get(ctx, wanted.Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: found.Name, UID: found.UID}, nil
}

// makePods makes the missing pods. It stops at the first failure, so that the pods made are the first ones.
func (c *Cloud) makePods(ctx context.Context, r provisioner.Request, secret *corev1.Secret) (made int, err error) {
	pods := c.config.Client.Pods(c.config.Namespace)
	free, leave, err := c.places(ctx, r)
	if err != nil {
		return 0, err
	}
	defer leave()
	own := place{secret.Name, max(r.Count-len(free), 1)}
	for made < r.Count {
		pod, err := c.pod(r, secret.Name, made, secret.OwnerReferences[0])
		if err != nil {
			return made, err
		}
		if c.config.Gang {
			join(pod, append(free, own)[0])
		}
		switch pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); {
		case err == nil:
			free = free[min(len(free), 1):]
			c.seen.note(c.read(pod))
		case !apierrors.IsAlreadyExists(err):
			return made, err
		}
		made++
	}
	return made, nil
}

// remark records that a launch is complete.
func (c *Cloud) remark(ctx context.Context, name string, made int) error {
	_, err := c.config.Client.Secrets(c.config.Namespace).Patch(ctx, name, types.MergePatchType,
		annotate(map[string]string{noteLaunched: strconv.Itoa(made)}), metav1.PatchOptions{})
	return err
}

// opening removes a pod's own gate, and leaves those of queues.
var opening = []byte(`{"spec": {"schedulingGates": [{"name": "` + gateLaunch + `", "$patch": "delete"}]}}`)

// open opens a pod's gate. A deleted pod needs none.
func (c *Cloud) open(ctx context.Context, m machine) (machine, error) {
	pod, err := c.config.Client.Pods(c.config.Namespace).Patch(ctx, string(m.ID), types.StrategicMergePatchType, opening, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return c.seen.lose(m), nil
	} else if err != nil {
		return m, failure(ctx, fmt.Sprintf("opening the gate of pod %s", m.ID), err)
	}
	return c.seen.note(c.read(pod)), nil
}

// ofLaunch opens the gates of a complete launch, and returns its pods: those that exist, and those that did.
func (c *Cloud) ofLaunch(ctx context.Context, r provisioner.Request, secret *corev1.Secret, made int) ([]provisioner.Instance, error) {
	for number := range made {
		name := provisioner.InstanceID(podName(secret.Name, number))
		if !c.seen.knows(name) { // made by an earlier process: if it is gone, assume what the request says
			c.seen.note(machine{Instance: provisioner.Instance{ID: name, Pool: r.Pool, Token: r.Token, Tags: r.Tags, State: provisioner.Pending,
				Launched: wholeSeconds(secret.CreationTimestamp.Time)}})
		}
	}
	machines, _, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	var instances []provisioner.Instance
	for _, m := range machines {
		if m.Token == r.Token {
			if m.gated {
				if m, err = c.open(ctx, m); err != nil {
					return nil, err
				}
			}
			instances = append(instances, m.Instance)
		}
	}
	return instances, nil
}

// tokens lets only one call at a time launch a token.
type tokens struct {
	mu   sync.Mutex
	busy map[string]chan struct{}
}

func (t *tokens) enter(ctx context.Context, token string) (leave func(), err error) {
	t.mu.Lock()
	busy := t.busy[token]
	if busy == nil {
		busy = make(chan struct{}, 1)
		t.busy[token] = busy
	}
	t.mu.Unlock()
	select {
	case busy <- struct{}{}:
		return func() { <-busy }, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
