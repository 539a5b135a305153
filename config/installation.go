package config

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
)

// Settings returns the block of the installation as a file of its own, as Terraform prints it, without what is of the host on
// which the job file is.
func (j *Job) Settings() []byte {
	bare := *j
	bare.Block = cloned(j.Block)
	at := bare.Block.Shared()
	at.Controller, at.Listen = Controller{}, ""
	for _, file := range bare.Files() {
		*file = ""
	}
	root := bare.resolvedNode()
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == j.Cloud {
			root.Content = root.Content[i : i+2]
			break
		}
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		panic("config: a tree of plain nodes did not encode: " + err.Error())
	}
	return b.Bytes()
}

// plainEndpoint is an address that a shell and systemd pass on as it is, in single quotes.
var plainEndpoint = pattern.Of(`^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/-]*)?$`)

// Endpoints returns the addresses of the cloud and of the store of checkpoints, where they are not the provider's own. Starting a job
// server with this job file allows them to the jobs that others send there.
func (j *Job) Endpoints() (out []string, err error) {
	at := j.Installation()
	if at == nil {
		return nil, nil
	}
	found := map[string]string{at.Block + ".endpoint": at.Endpoint}
	if place, err := location.Parse(at.Checkpoints); err == nil { // one that does not parse has been refused
		found[at.Block+".checkpoints"] = place.Settings().Get("endpoint")
	}
	for field, address := range found { // any order: they are sorted below
		if address == "" || slices.Contains(out, address) {
			continue
		}
		if _, plain := webAddress(address); !plain || !plainEndpoint().MatchString(address) {
			return nil, j.Fault(field, "names an endpoint that a job server cannot allow", "write https://HOST, with a port if there is one")
		}
		out = append(out, address)
	}
	slices.Sort(out)
	return out, nil
}
