//go:build kube

package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Nothing is a Runtime whose pods do nothing until they are ended.
type Nothing struct{}

// Start starts nothing.
func (Nothing) Start(context.Context, *corev1.Pod) (Process, error) {
	return &nothing{done: make(chan struct{})}, nil
}

type nothing struct {
	done chan struct{}
	once sync.Once
}

func (*nothing) Terminate()    {} // like a program that ignores the signal
func (n *nothing) Kill()       { n.once.Do(func() { close(n.done) }) }
func (n *nothing) Wait() int32 { <-n.done; return 137 }

// Processes runs pods as processes of this host, each in a folder of its own. There is no file system of theirs: paths at which a
// pod mounts volumes are folders below its own, in its environment too.
type Processes struct {
	Client kubernetes.Interface
	Folder string            // of all pods
	Paths  map[string]string // programs of images: where they are on this host
	Env    []string          // beside the pod's
	// Hosts is the file that pods have as /etc/hosts. With it each pod has mounts and process numbers of its own, as containers have,
	// so that all its processes end with the first; that takes Linux and root.
	Hosts string
}

// Start starts a pod's container.
func (p Processes) Start(ctx context.Context, pod *corev1.Pod) (Process, error) {
	c := pod.Spec.Containers[0]
	root := filepath.Join(p.Folder, pod.Name+"-"+string(pod.UID))
	mounted, err := p.mount(ctx, pod, root)
	if err != nil {
		return nil, err
	}
	command := slices.Concat(c.Command, c.Args)
	if on := p.Paths[command[0]]; on != "" {
		command[0] = on
	}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if p.Hosts != "" {
		if err := isolate(attributes); err != nil {
			return nil, err
		}
		const enter = `mount --make-rprivate / && mount --bind "$0" /etc/hosts && mount -t proc proc /proc && exec "$@"`
		command = append([]string{"/bin/sh", "-c", enter, p.Hosts}, command...)
	}
	log, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = root, log, log, attributes
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, p.Env...)
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = pod.Name
		}
		for path, on := range mounted {
			if value == path || strings.HasPrefix(value, path+"/") {
				value = on + strings.TrimPrefix(value, path)
				break
			}
		}
		cmd.Env = append(cmd.Env, v.Name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return process{cmd}, nil
}

// mount makes the folders of a pod's volumes: paths in the pod, and where they are.
func (p Processes) mount(ctx context.Context, pod *corev1.Pod, root string) (map[string]string, error) {
	mounted := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		on := filepath.Join(root, filepath.FromSlash(m.MountPath))
		if err := os.MkdirAll(on, 0o700); err != nil {
			return nil, err
		}
		mounted[m.MountPath] = on
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name || v.Secret == nil {
				continue
			}
			secret, err := p.Client.CoreV1().Secrets(pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("mounting secret %s: %w", v.Secret.SecretName, err)
			}
			for name, data := range secret.Data {
				if err := os.WriteFile(filepath.Join(on, name), data, 0o600); err != nil {
					return nil, err
				}
			}
		}
	}
	return mounted, os.MkdirAll(root, 0o700)
}

type process struct{ cmd *exec.Cmd }

func (p process) Terminate() { _ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGTERM) } // it may have ended
func (p process) Kill()      { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

func (p process) Wait() int32 {
	_ = p.cmd.Wait()
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int32(s.Signal())
	}
	return int32(p.cmd.ProcessState.ExitCode())
}
