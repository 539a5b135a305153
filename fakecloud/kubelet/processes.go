package kubelet

import (
	"cmp"
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

	"github.com/tierml/tierml/internal/pattern"
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

// Processes runs pods as processes of this host, each in a folder of its own. Without Image there is no separate file system: paths at
// which a pod mounts volumes are folders below its own, in its environment too.
type Processes struct {
	Client kubernetes.Interface
	Folder string            // of all pods, and of the volumes that claims are bound to
	Paths  map[string]string // programs of images: where they are on this host
	Env    []string          // in addition to the pod's
	// Image makes pods containers (container.go), which requires Linux and root.
	Image *Image
}

// Start starts a pod's container.
func (p Processes) Start(ctx context.Context, pod *corev1.Pod) (Process, error) {
	c := pod.Spec.Containers[0]
	root := filepath.Join(p.Folder, pod.Name+"-"+string(pod.UID))
	mounted, err := p.volumes(ctx, pod, root)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Dir: root, Env: append([]string{"PATH=" + os.Getenv("PATH")}, p.Env...), SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	values := map[string]string{}
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = pod.Name
		}
		values[v.Name] = variable().ReplaceAllStringFunc(value, func(of string) string { return cmp.Or(values[of[2:len(of)-1]], of) })
		cmd.Env = append(cmd.Env, v.Name+"="+values[v.Name])
	}
	cmd.Args = slices.Concat(c.Command, c.Args)
	if p.Image != nil {
		err = p.contain(ctx, cmd, pod, root, mounted)
	} else {
		p.replacePaths(cmd, mounted)
	}
	if err != nil {
		return nil, err
	}
	if cmd.Path, err = exec.LookPath(cmd.Args[0]); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return process{cmd}, nil
}

// variable matches a reference that Kubernetes expands in others' values.
var variable = pattern.Of(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// replacePaths replaces paths in the pod by paths on this host.
func (p Processes) replacePaths(cmd *exec.Cmd, mounted map[string]string) {
	if on := p.Paths[cmd.Args[0]]; on != "" {
		cmd.Args[0] = on
	}
	for i, v := range cmd.Env {
		name, value, _ := strings.Cut(v, "=")
		for path, on := range mounted {
			if value == path || strings.HasPrefix(value, path+"/") {
				cmd.Env[i] = name + "=" + on + strings.TrimPrefix(value, path)
				break
			}
		}
	}
}

// volumes creates the folders of a pod's volumes: paths in the pod, and where they are. A claim's folder outlives the pod.
func (p Processes) volumes(ctx context.Context, pod *corev1.Pod, root string) (map[string]string, error) {
	mounted := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			return nil, fmt.Errorf("there is no volume %s", m.Name)
		}
		v := pod.Spec.Volumes[at]
		on := filepath.Join(root, filepath.FromSlash(m.MountPath))
		if v.PersistentVolumeClaim != nil {
			on = p.Claim(pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		}
		if err := os.MkdirAll(on, 0o700); err != nil {
			return nil, err
		}
		mounted[m.MountPath] = on
		if v.Secret == nil {
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
	return mounted, os.MkdirAll(root, 0o700)
}

// Claim returns the folder of the volume that a claim is bound to.
func (p Processes) Claim(namespace, name string) string {
	return filepath.Join(p.Folder, "claims", namespace, name)
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
