package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
)

// Settings returns the block of the installation as a separate file, as Terraform prints it, without what belongs to the host of the job
// file.
func (j *Job) Settings() []byte {
	bare := *j
	bare.Block = cloned(j.Block)
	at := bare.Block.Shared()
	at.Controller, at.Listen = Controller{}, ""
	for _, file := range bare.Files() {
		*file = ""
	}
	return bare.SettingsHere()
}

// SettingsHere returns the block of the installation as a file of this host, which Settings' receiver may not be.
func (j *Job) SettingsHere() []byte {
	bare := *j
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

// plainEndpoint matches addresses that a shell and systemd pass on unchanged in single quotes.
var plainEndpoint = pattern.Of(`^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/-]*)?$`)

// Endpoints returns the addresses of the cloud and of the store of checkpoints, if they are not the provider's own. Starting a job server
// with this job file permits them to jobs submitted there.
func (j *Job) Endpoints() (out []string, err error) {
	at := j.Installation()
	if at == nil {
		return nil, nil
	}
	found := map[string]string{at.Block + ".endpoint": at.Endpoint}
	if place, err := location.Parse(at.Checkpoints); err == nil { // one that does not parse has been refused
		found[at.Block+".checkpoints"] = place.Settings().Get("endpoint")
	}
	for field, address := range found { // in any order: they are sorted below
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

// Find reads the settings of an installation of a cloud: those at a path or an address or, without a name, those that this host knows.
// Where says from where; empty = there are none.
type Find func(cloud, name string) (text []byte, where string, err error)

// findSettings is only changed before main begins.
var findSettings Find = func(string, string) ([]byte, string, error) { return nil, "", nil }

// FindSettings sets how installations are found.
func FindSettings(find Find) { findSettings = find }

// install completes the block of a job's cloud: from the settings that its `installation` names; if it says next to nothing, from those
// that this host knows; and from the environment's region.
func (d *decoder) install(root *yaml.Node, job *Job) {
	provider, real := ProviderNamed(job.Cloud)
	if !real {
		return
	}
	block := fieldNode(root, job.Cloud)
	if block == nil || block.Tag == "!!null" {
		block = &yaml.Node{Kind: yaml.MappingNode, Line: root.Line, Column: root.Column}
	}
	field := job.Cloud + ".installation"
	named := fieldNode(block, "installation")
	name := ""
	switch {
	case block.Kind != yaml.MappingNode:
		return // reported later
	case named != nil && (named.Kind != yaml.ScalarNode || named.Value == ""):
		return
	case named != nil:
		if name = named.Value; !location.IsURL(name) && !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(d.file), name)
		}
	case fieldNode(block, "program") != nil || fieldNode(block, "image") != nil || fieldNode(block, "checkpoints") != nil:
		name = "-"
	}
	if name != "-" {
		text, where, err := findSettings(job.Cloud, name)
		if err == nil && where != "" {
			if err = merge(block, text, where, job.Cloud); err == nil { // what is sent elsewhere, or stored, contains the settings themselves
				removeField(block, "installation")
			}
		}
		switch {
		case err != nil && named != nil:
			d.fault(field, named, "cannot be used: "+err.Error(), "name the file that `terraform output -raw settings` prints, or where the module keeps it")
		case err == nil && where != "" && named == nil:
			job.Assume(job.Cloud, job.Cloud+": the installation of "+where)
		}
	}
	if fieldNode(block, "region") == nil && len(block.Content) > 0 {
		for _, variable := range provider.RegionIn {
			if region, ok := d.lookup(variable); ok && region != "" {
				setField(block, "region", textNode(region))
				job.Assume(job.Cloud+".region", job.Cloud+".region: "+region+", by "+variable)
				break
			}
		}
	}
	if len(block.Content) > 0 && fieldNode(root, job.Cloud) != block {
		setField(root, job.Cloud, block)
	}
}

// merge adds settings of an installation that a block lacks.
func merge(block *yaml.Node, text []byte, where, cloud string) error {
	settings, err := document(where, text)
	if err != nil {
		return err
	}
	from := fieldNode(settings, cloud)
	if from == nil || from.Kind != yaml.MappingNode {
		return fmt.Errorf("%s has no settings of %s", where, cloud)
	}
	for i := 0; i+1 < len(from.Content); i += 2 {
		if key := from.Content[i].Value; fieldNode(block, key) == nil {
			setField(block, key, from.Content[i+1])
		}
	}
	return nil
}
