package kube_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tierml/tierml/fakecloud/kubelet"
)

// registry stands in for the registry with the release's image.
const registry = "registry.example.com/tierml"

// dist is the folder of the release.
var dist = filepath.Join(os.TempDir(), fmt.Sprintf("release-of-test-kube-%d", os.Getpid()))

// released makes a release for this machine, once for all tests, with make's flags: everything is already compiled with them.
var released = sync.OnceValue(func() error {
	cmd := exec.Command("go", "-C", "../../tools/release", "run", ".", "-out", dist, "-version", "v0.1.0", "-image", registry, "linux/"+runtime.GOARCH)
	cmd.Env = append(os.Environ(), "RELEASE_GOFLAGS="+os.Getenv("GOFLAGS"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// newContainers makes a world whose pods are containers of a release's image, the only one available.
func newContainers(t *testing.T) *world {
	t.Helper()
	if needsServer(t); os.Geteuid() != 0 {
		t.Skip("containers take root")
	}
	authority, err := os.ReadFile(os.Getenv("TIERML_KUBE_CA"))
	if err != nil {
		t.Fatal(err)
	}
	if err := released(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(p *kubelet.Processes) {
		p.Image = &kubelet.Image{Folder: filepath.Join(p.Folder, "image"), Hosts: filepath.Join(p.Folder, "hosts")}
	})
	w.runtime.Image.API = &rest.Config{Host: w.server, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	w.runtime.Image.Name = registry + "@" + w.unpackImage(w.runtime.Image.Folder)
	w.resolve("")
	return w
}

// unpackImage puts the files of the release's image into a folder, and returns its digest.
func (w *world) unpackImage(folder string) string {
	w.Helper()
	layout := w.TempDir()
	w.command("tar", "--extract", "--gzip", "--file", filepath.Join(dist, "tierml_0.1.0_image.tar.gz"), "--directory", layout)
	type object struct{ Digest string }
	var top, index, manifest struct{ Manifests, Layers []object }
	read := func(to any, path ...string) {
		text, err := os.ReadFile(filepath.Join(append([]string{layout}, path...)...))
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	blob := func(o object) string {
		return filepath.Join("blobs", "sha256", strings.TrimPrefix(o.Digest, "sha256:"))
	}
	read(&top, "index.json")
	read(&index, blob(top.Manifests[0]))
	read(&manifest, blob(index.Manifests[0]))
	if err := os.Mkdir(folder, 0o755); err != nil {
		w.Fatal(err)
	}
	w.command("tar", "--extract", "--gzip", "--file", filepath.Join(layout, blob(manifest.Layers[0])), "--directory", folder)
	return top.Manifests[0].Digest
}

// resolve makes containers resolve names to an address.
func (w *world) resolve(address string, names ...string) {
	w.Helper()
	text := "127.0.0.1 localhost\n"
	for _, name := range names {
		text += address + " " + name + "\n"
	}
	if err := os.WriteFile(w.runtime.Image.Hosts, []byte(text), 0o644); err != nil { // the same file: containers have mounted it
		w.Fatal(err)
	}
}

// The image starts as a container of its user, without privileges and on a read-only file system, under the strictest of the Pod Security Standards.
func TestRealImage(t *testing.T) {
	w := newContainers(t)
	for name, c := range map[string]struct{ command, phase, says string }{
		"version":   {"[/tierml, version]", "Succeeded", "tierml v0.1.0"},
		"elsewhere": {"[/tierml, server, --directory=/work]", "Failed", "mkdir /work: read-only file system"},
	} {
		pod := filepath.Join(t.TempDir(), "pod.yaml")
		if err := os.WriteFile(pod, fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: image-%s, namespace: tierml}, spec: {restartPolicy: Never, automountServiceAccountToken: false,
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: it, image: '%s', command: %s,
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}]}}`, name, w.runtime.Image.Name, c.command), 0o600); err != nil {
			t.Fatal(err)
		}
		w.kubectl("apply", "-f", pod)
		phase := ""
		w.until(name+" ends", func() bool {
			phase = strings.TrimSpace(w.kubectl("--namespace=tierml", "get", "pod/image-"+name, "--output=jsonpath={.status.phase}"))
			return phase == "Succeeded" || phase == "Failed"
		})
		logs, err := filepath.Glob(filepath.Join(w.runtime.Folder, "image-"+name+"-*", "log"))
		if err != nil || len(logs) != 1 {
			t.Fatalf("%v, %v", logs, err)
		}
		text, err := os.ReadFile(logs[0])
		if err != nil || phase != c.phase || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: %s (%v): %s", name, phase, err, text)
		}
		t.Logf("%s: %s, %s", name, phase, strings.TrimSpace(string(text)))
		w.kubectl("--namespace=tierml", "delete", "pod/image-"+name)
	}
}
