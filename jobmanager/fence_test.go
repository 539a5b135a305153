package jobmanager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fencedGroups = `speech:
  submit: []
  fence:
    kubernetes.namespace: [speech, speech-dev]
    kubernetes.service_account: [speech-pods, ""]
    kubernetes.image: registry.example.com/tierml@sha256:aa
vision:
  submit: []
`

// A group's jobs use only the namespaces, accounts and images of its fence; without a fence they use none of a cluster's.
func TestFenceOfGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "groups.yaml")
	if err := os.WriteFile(path, []byte(fencedGroups), 0o600); err != nil {
		t.Fatal(err)
	}
	groups, err := ReadGroups(path)
	if err != nil {
		t.Fatal(err)
	}
	job := func(namespace, account, image string) []byte {
		text := "cloud: kubernetes\nkubernetes:\n  namespace: " + namespace + "\n  image: " + image + "\n"
		if account != "" {
			text += "  service_account: " + account + "\n"
		}
		return []byte(text)
	}
	const image = "registry.example.com/tierml@sha256:aa"
	for what, c := range map[string]struct {
		group, cloud string
		job          []byte
		refused      string
	}{
		"own":                     {"speech", "kubernetes", job("speech", "speech-pods", image), ""},
		"own, no account":         {"speech", "kubernetes", job("speech-dev", "", image), ""},
		"another's namespace":     {"speech", "kubernetes", job("vision", "speech-pods", image), "kubernetes.namespace"},
		"the system's":            {"speech", "kubernetes", job("kube-system", "", image), "kubernetes.namespace"},
		"another account":         {"speech", "kubernetes", job("speech", "tierml-controller", image), "kubernetes.service_account"},
		"another image":           {"speech", "kubernetes", job("speech", "", "evil.example.com/x"), "kubernetes.image"},
		"a patch of pods":         {"speech", "kubernetes", append(job("speech", "", image), "  pod: {spec: {volumes: []}}\n"...), "may not write kubernetes.pod"},
		"a group without a fence": {"vision", "kubernetes", job("vision", "", image), "group vision has no fence"},
		"another cloud":           {"speech", "ec2", []byte("cloud: ec2\nec2: {region: us-west-2}\n"), ""},
		"another cloud, no fence": {"vision", "ec2", []byte("cloud: ec2\nec2: {region: us-west-2}\n"), ""},
	} {
		err := groups[c.group].Fence.refusesText(c.group, c.cloud, c.job)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for text, want := range map[string]string{
		"a: {fence: {nonsense: [x]}}":                  "nonsense",
		"a: {fence: {kubernetes.namespace: [{x: 1}]}}": "write a list of values",
		`"*": {fence: {name: [x]}}`:                    "fence of all groups",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadGroups(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
