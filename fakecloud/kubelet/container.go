package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Image is the image of pods that are containers. They have the file system of the image, read-only on request, with their volumes mounted;
// the requested user and group, without privileges; and their own mounts and process numbers, so that all their processes end with the
// first. They share this host's network, without limits on resources.
type Image struct {
	Name   string // by which pods request it; pods with other images fail
	Folder string // of its files, on the file system of Processes.Folder
	Hosts  string // the file that pods have as /etc/hosts, instead of a cluster's DNS
	// API is how pods reach the API server with their service account's token. Only Host and CAData count.
	API *rest.Config
}

// accountPath is where pods find their service account's token.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// enter creates a container's mounts, which are pairs of paths, and starts its command in it. The image's root is mounted on itself, so
// that it can be made read-only without its volumes.
const enter = `set -e
root=$1 mode=$2 directory=$3 user=$4 group=$5
shift 5
mount --make-rprivate /
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o "remount,bind,$mode" "$root"
exec setpriv --clear-groups --no-new-privs unshare --root="$root" --wd="$directory" --setgid="$group" --setuid="$user" -- "$@"`

// contain makes a command run in a container.
func (p Processes) contain(ctx context.Context, cmd *exec.Cmd, pod *corev1.Pod, folder string, mounted map[string]string) error {
	c, root := pod.Spec.Containers[0], filepath.Join(folder, "rootfs")
	if c.Image != p.Image.Name {
		return fmt.Errorf("there is no image %s", c.Image)
	}
	if err := isolate(cmd.SysProcAttr); err != nil {
		return err
	}
	user, group := int64(0), int64(0)
	if s := pod.Spec.SecurityContext; s != nil && s.RunAsUser != nil && s.RunAsGroup != nil {
		user, group = *s.RunAsUser, *s.RunAsGroup
	}
	mode := "rw"
	if s := c.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
		mode = "ro"
	}
	if account := pod.Spec.ServiceAccountName; account != "" && (pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken) {
		mounted[accountPath] = filepath.Join(folder, "account")
		if err := p.giveToken(ctx, cmd, pod.Namespace, account, mounted[accountPath]); err != nil {
			return err
		}
	}
	if err := link(p.Image.Folder, root); err != nil {
		return fmt.Errorf("unpacking the image: %w", err)
	}
	args := []string{"/bin/sh", "-c", enter, "sh", root, mode, cmp.Or(c.WorkingDir, "/"), fmt.Sprint(user), fmt.Sprint(group)}
	for path, on := range mounted { // in any order: none is below another
		args = append(args, on, path)
		if err := errors.Join(os.MkdirAll(filepath.Join(root, path), 0o755), give(on, int(user), int(group))); err != nil {
			return err
		}
	}
	for _, dir := range []string{"dev", "proc", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), nil, 0o600); err != nil {
		return err
	}
	cmd.Args = slices.Concat(args, []string{p.Image.Hosts, "/etc/hosts", "--"}, cmd.Args)
	return nil
}

// giveToken creates what a pod needs to reach the API server as its service account.
func (p Processes) giveToken(ctx context.Context, cmd *exec.Cmd, namespace, account, folder string) error {
	made, err := p.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a token of service account %s: %w", account, err)
	}
	server, err := url.Parse(p.Image.API.Host)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"token": []byte(made.Status.Token), "ca.crt": p.Image.API.CAData, "namespace": []byte(namespace)} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// link creates a folder with the same files as another.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		return os.Link(path, filepath.Join(to, relative))
	})
}

// give changes the owner of a folder and its contents.
func give(folder string, user, group int) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, user, group)
	})
}
