package kube_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const chart = "../../deploy/kubernetes/chart"

// helm runs Helm and returns its output, or its errors if it fails.
func helm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("TIERML_HELM"), arguments...)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(failed.Stderr), err
	}
	return string(out), err
}

// The API server admits the chart's objects, with each of its values; a release is installed, and leaves nothing after its removal.
func TestRealChart(t *testing.T) {
	w := newWorld(t)
	w.kubectl("apply", "--server-side", "-f", os.Getenv("TIERML_PODMONITOR"))
	const image = "--set=image=registry.example.com/tierml:latest"
	for name, values := range map[string][]string{
		"ordinary":          {image},
		"accounts alone":    {"--set=controller.enabled=false"},
		"its own namespace": {image, "--set=namespace.create=true"},
		"watched by TLS": {image, "--set=controller.tlsSecret=tls,podMonitor.enabled=true,controller.storageClass=fast,imagePullSecrets[0].name=registry",
			"--set-json=controller.from=[{\"podSelector\":{}}]", "--set-json=controller.args=[\"--max-running=4\"]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t}
			rendered, err := helm(t, append([]string{"template", "tierml", chart, "--namespace=tierml"}, values...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, rendered)
			}
			file := filepath.Join(t.TempDir(), "rendered.yaml")
			if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
				t.Fatal(err)
			}
			out := w.kubectl("apply", "--dry-run=server", "--validate=strict", "--force-conflicts", "--server-side", "-f", file)
			if objects, admitted := strings.Count(rendered, "\nkind: "), strings.Count(out, "(server dry run)"); admitted != objects || objects == 0 {
				t.Errorf("%d of %d objects were admitted:\n%s", admitted, objects, out)
			} else {
				t.Logf("%d objects", objects)
			}
		})
	}
	for wrong, says := range map[string]string{"": "write the image of `make image`", image + ",podMonitor.enabled=true": "podMonitor needs controller.tlsSecret"} {
		out, err := helm(t, strings.Fields("template tierml "+chart+" "+wrong)...)
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v, want %q in\n%s", wrong, err, says, out)
		}
	}
	if out, err := helm(t, "lint", "--strict", image, chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// Another release next to the one that newWorld has applied.
	if out, err := helm(t, "install", "second", chart, "--namespace=second", "--create-namespace", image, "--set=clusterObjects=false"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.kubectl("--namespace=second", "get", "statefulset/tierml-controller", "service/tierml-controller", "poddisruptionbudget/tierml-controller",
		"networkpolicy/tierml", "role/tierml-controller", "serviceaccount/tierml-pods")
	if out, err := helm(t, "uninstall", "second", "--namespace=second"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if left := w.kubectl("get", "statefulsets,services,poddisruptionbudgets,networkpolicies,roles,rolebindings,serviceaccounts,clusterrolebindings", "--all-namespaces",
		"--selector=app.kubernetes.io/managed-by=Helm", "--output=name"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// The manifests are Helm's output for the chart, by the command in their first line.
func TestRealManifests(t *testing.T) {
	needsServer(t)
	for _, file := range []string{"tierml.yaml", "server.yaml"} {
		text, err := os.ReadFile("../../deploy/kubernetes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		call, rest, _ := strings.Cut(strings.TrimPrefix(string(text), "# helm "), "\n")
		_, rest, _ = strings.Cut(rest, "\n")
		want, err := helm(t, strings.Fields(strings.Replace(call, "deploy/kubernetes/chart", chart, 1))...)
		if err != nil {
			t.Fatalf("%v\n%s", err, want)
		}
		if rest != want {
			t.Errorf("%s is not what `helm %s` prints: run `make manifests`", file, call)
		}
	}
}
