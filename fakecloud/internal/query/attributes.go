package query

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// This file has what scripts read and set of a single machine, and looks up public images.

// attribute is an element with the attribute's name; an empty value = the machine has none.
type attribute struct {
	XMLName xml.Name
	Value   string `xml:"value,omitempty"`
}

// machineAttributes are those of every machine; the names are also the elements'.
var machineAttributes = map[string]func(region.Instance) string{
	"instanceType":          func(i region.Instance) string { return i.Pool.Type },
	"userData":              func(i region.Instance) string { return base64.StdEncoding.EncodeToString(i.UserData) },
	"disableApiTermination": func(i region.Instance) string { return strconv.FormatBool(i.Protected) },
	"disableApiStop":        func(region.Instance) string { return "false" },
	"ebsOptimized":          func(region.Instance) string { return "false" },
	"sourceDestCheck":       func(region.Instance) string { return "true" },
	"rootDeviceName":        func(region.Instance) string { return rootDevice },
}

func describeInstanceAttribute(c *call) (answer, error) {
	id, name := c.required("InstanceId"), c.required("Attribute")
	if err := c.ready(); err != nil {
		return nil, err
	}
	value, known := machineAttributes[name]
	if !known {
		return nil, region.Errorf("Unsupported", "The attribute %s is not supported here.", name)
	}
	i, ok := c.region.Instance(c.now, id)
	if !ok {
		return nil, region.NotFound(id)
	}
	v := &struct {
		header
		ID        string `xml:"instanceId"`
		Attribute attribute
	}{ID: id}
	v.Attribute.XMLName.Local, v.Attribute.Value = name, value(i)
	return v, nil
}

// modifyInstanceMetadataOptions only accepts the present state: metadata is enabled, version 2 only.
func modifyInstanceMetadataOptions(c *call) (answer, error) {
	id, tokens, endpoint := c.required("InstanceId"), c.text("HttpTokens"), c.text("HttpEndpoint")
	c.ignore("HttpPutResponseHopLimit") // there is no network to hop in
	if tokens != "" && tokens != "required" || endpoint != "" && endpoint != "enabled" {
		c.fail(region.Errorf("Unsupported", "Metadata is served by version 2 only: HttpTokens=required, HttpEndpoint=enabled."))
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	if _, ok := c.region.Instance(c.now, id); !ok {
		return nil, region.NotFound(id)
	}
	type options struct {
		State    string `xml:"state"`
		Tokens   string `xml:"httpTokens"`
		Endpoint string `xml:"httpEndpoint"`
	}
	return &struct {
		header
		ID      string  `xml:"instanceId"`
		Options options `xml:"instanceMetadataOptions"`
	}{ID: id, Options: options{"applied", "required", "enabled"}}, nil
}

// placementGroup: there are none here.
type placementGroup struct {
	Name  string `xml:"groupName" filter:"group-name"`
	State string `xml:"state" filter:"state"`
}

// publicImages begins the names of Systems Manager's public parameters.
const publicImages = "/aws/service/"

// getParameter answers Systems Manager's public parameters with the existing image.
func getParameter(r *region.Region, body []byte) (any, error) {
	var q struct{ Name string }
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, region.Errorf("SerializationException", "%v", err)
	}
	images := r.Resources(region.Image)
	arch := "x86_64"
	if strings.Contains(path.Base(q.Name), "arm64") || strings.Contains(q.Name, "/arm64/") {
		arch = "arm64"
	}
	for _, i := range images {
		if strings.HasPrefix(q.Name, publicImages) && i.Text == arch {
			return map[string]any{"Parameter": map[string]any{"Name": q.Name, "Type": "String", "Value": i.ID, "Version": 1, "DataType": "aws:ec2:image",
				"ARN": fmt.Sprintf("arn:aws:ssm:%s::parameter%s", r.Name(), q.Name)}}, nil
		}
	}
	return nil, region.Errorf("ParameterNotFound", "%s is not there.", q.Name)
}
