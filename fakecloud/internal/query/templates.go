package query

import (
	"encoding/xml"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// creator is the creator of the account's things.
const creator = "arn:aws:iam::" + Account + ":root"

type launchTemplate struct {
	ID      string    `xml:"launchTemplateId"`
	Name    string    `xml:"launchTemplateName"`
	Created stamp     `xml:"createTime"`
	By      string    `xml:"createdBy"`
	Default int       `xml:"defaultVersionNumber"`
	Latest  int       `xml:"latestVersionNumber"`
	Tags    *set[tag] `xml:"tagSet"`
}

func templateShape(t region.Template) launchTemplate {
	return launchTemplate{t.ID, t.Name, stamp(t.Created), creator, t.Default, t.Latest(), tagSet(t.Tags)}
}

type templateAnswer struct {
	header
	Template launchTemplate `xml:"launchTemplate"`
}

func createLaunchTemplate(c *call) (answer, error) {
	t := region.Template{Name: c.required("LaunchTemplateName"), TemplateVersion: c.version(nil)}
	t.Tags = c.tagSpecifications("TagSpecification", "launch-template")["launch-template"]
	c.ignore("ClientToken")
	if err := c.ready(); err != nil {
		return nil, err
	}
	t, err := c.region.CreateTemplate(c.now, t)
	if err != nil {
		return nil, err
	}
	return &templateAnswer{Template: templateShape(t)}, nil
}

func deleteLaunchTemplate(c *call) (answer, error) {
	id, name := c.templateName()
	if err := c.ready(); err != nil {
		return nil, err
	}
	t, err := c.region.DeleteTemplate(id, name)
	if err != nil {
		return nil, inPlural(err)
	}
	return &templateAnswer{Template: templateShape(t)}, nil
}

// inPlural is the error of lists and deletions for an unknown name, unlike launches.
func inPlural(err error) error {
	if e, ok := errors.AsType[*region.Error](err); ok && e.Code == "InvalidLaunchTemplateName.NotFoundException" {
		return region.Errorf(e.Code, "At least one of the launch templates specified in the request does not exist.")
	}
	return err
}

// templateFields are the filters of DescribeLaunchTemplates.
var templateFields = map[string]func(region.Template) []string{
	"launch-template-name": one(func(t region.Template) string { return t.Name }),
}

func describeLaunchTemplates(c *call) (answer, error) {
	ids, names := c.list("LaunchTemplateId"), c.list("LaunchTemplateName")
	filters, page := c.filters(), c.page(1, 200)
	if err := c.ready(); err != nil {
		return nil, err
	}
	list := c.region.Templates()
	if len(ids)+len(names) > 0 {
		list = nil
		for _, id := range ids {
			t, err := c.region.Template(id, "")
			if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
		for _, name := range names {
			t, err := c.region.Template("", name)
			if err != nil {
				return nil, inPlural(err)
			}
			list = append(list, t)
		}
	}
	list, err := selectBy(list, filters, func(t region.Template) map[string]string { return t.Tags }, templateFields)
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	return &struct {
		header
		Templates set[launchTemplate] `xml:"launchTemplates"`
		NextToken string              `xml:"nextToken,omitempty"`
	}{Templates: setOf(list, templateShape), NextToken: next}, nil
}

// templateName reads which template a call is about.
func (c *call) templateName() (id, name string) {
	id, name = c.text("LaunchTemplateId"), c.text("LaunchTemplateName")
	if id == "" && name == "" {
		c.fail(region.Errorf("MissingParameter", "The request must contain the parameter launch template ID or launch template name"))
	}
	return id, name
}

// template finds the template of a launch, as of the requested version.
func (c *call) template(prefix string) (region.Template, error) {
	version := c.text(prefix + ".Version")
	t, err := c.region.Template(c.text(prefix+".LaunchTemplateId"), c.text(prefix+".LaunchTemplateName"))
	if err != nil {
		return t, err
	}
	return t.At(version)
}

const templatePrefix = "LaunchTemplateData."

// version reads a version's data, over that of its base version.
func (c *call) version(from map[string]string) region.TemplateVersion {
	given, over := make(map[string]string), make(map[string]bool)
	for name := range c.form {
		if rest, ok := strings.CutPrefix(name, templatePrefix); ok {
			given[rest] = c.form.Get(name)
			top, _, _ := strings.Cut(rest, ".")
			over[top] = true
		}
	}
	for name, value := range from {
		if top, _, _ := strings.Cut(name, "."); !over[top] {
			given[name] = value
		}
	}
	form := make(url.Values)
	for name, value := range given {
		form.Set(templatePrefix+name, value)
	}
	whole := &call{params: newParams(form), region: c.region, now: c.now}
	v := region.TemplateVersion{Data: whole.templateData(templatePrefix), Given: given, Note: c.text("VersionDescription")}
	if err := whole.finish(); err != nil && c.err == nil {
		c.err = err
	}
	c.ignore(strings.TrimSuffix(templatePrefix, "."))
	return v
}

type templateVersion struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Number  int    `xml:"versionNumber"`
	Note    string `xml:"versionDescription,omitempty"`
	Created stamp  `xml:"createTime"`
	By      string `xml:"createdBy"`
	Default bool   `xml:"defaultVersion"`
	Data    node
}

func versionShape(t region.Template) templateVersion {
	return templateVersion{t.ID, t.Name, t.Number, t.Note, stamp(t.Made), creator, t.Number == t.Default,
		nodeOf("launchTemplateData", "Set", t.Given)}
}

// versionFields are the filters of DescribeLaunchTemplateVersions.
var versionFields = map[string]func(region.Template) []string{
	"is-default-version": one(func(t region.Template) string { return strconv.FormatBool(t.Number == t.Default) }),
	"image-id":           one(func(t region.Template) string { return t.Data.Image }),
	"instance-type":      one(func(t region.Template) string { return t.Data.Type }),
}

func createLaunchTemplateVersion(c *call) (answer, error) {
	id, name := c.templateName()
	source := c.text("SourceVersion")
	c.ignore("ClientToken")
	c.unspoken("ResolveAlias")
	var from map[string]string
	if source != "" {
		t, err := c.region.Template(id, name)
		if err != nil {
			return nil, err
		}
		if t, err = t.At(source); err != nil {
			return nil, err
		}
		from = t.Given
	}
	v := c.version(from)
	if err := c.ready(); err != nil {
		return nil, err
	}
	t, err := c.region.AddVersion(c.now, id, name, v)
	if err != nil {
		return nil, err
	}
	return &struct {
		header
		Version templateVersion `xml:"launchTemplateVersion"`
	}{Version: versionShape(t)}, nil
}

// describeLaunchTemplateVersions shows one template's by number, newest first, or every template's "$Latest" and "$Default".
func describeLaunchTemplateVersions(c *call) (answer, error) {
	id, name, wanted := c.text("LaunchTemplateId"), c.text("LaunchTemplateName"), c.list("LaunchTemplateVersion")
	least, most := c.number("MinVersion", 1), c.number("MaxVersion", 0)
	c.unspoken("ResolveAlias", "IncludeManagedResources")
	templates := c.region.Templates()
	if id != "" || name != "" {
		t, err := c.region.Template(id, name)
		if err != nil {
			return nil, err
		}
		templates = []region.Template{t}
		if len(wanted) == 0 {
			for _, v := range slices.Backward(t.Versions) {
				if v.Number >= least && (most == 0 || v.Number <= most) {
					wanted = append(wanted, strconv.Itoa(v.Number))
				}
			}
		}
	} else if len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return w != "$Latest" && w != "$Default" }) {
		c.fail(region.Errorf("MissingParameter", "Without a launch template, versions must be $Latest or $Default."))
	}
	filters, page := c.filters(), c.page(1, 200)
	if err := c.ready(); err != nil {
		return nil, err
	}
	var list []region.Template
	for _, t := range templates {
		for _, version := range wanted {
			as, err := t.At(version)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(list, func(v region.Template) bool { return v.ID == t.ID && v.Number == as.Number }) {
				list = append(list, as)
			}
		}
	}
	list, err := selectBy(list, filters, nil, versionFields)
	if err != nil {
		return nil, err
	}
	list, next := cut(list, page)
	return &struct {
		header
		Versions  set[templateVersion] `xml:"launchTemplateVersionSet"`
		NextToken string               `xml:"nextToken,omitempty"`
	}{Versions: setOf(list, versionShape), NextToken: next}, nil
}

func modifyLaunchTemplate(c *call) (answer, error) {
	id, name := c.templateName()
	version := c.required("SetDefaultVersion")
	c.ignore("ClientToken")
	if err := c.ready(); err != nil {
		return nil, err
	}
	t, err := c.region.SetDefault(id, name, version)
	if err != nil {
		return nil, err
	}
	return &templateAnswer{Template: templateShape(t)}, nil
}

func deleteLaunchTemplateVersions(c *call) (answer, error) {
	id, name := c.templateName()
	versions := c.list("LaunchTemplateVersion")
	if len(versions) == 0 {
		c.required("LaunchTemplateVersion.1")
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	t, err := c.region.Template(id, name)
	if err != nil {
		return nil, err
	}
	type deletion struct {
		ID     string `xml:"launchTemplateId"`
		Name   string `xml:"launchTemplateName"`
		Number string `xml:"versionNumber"`
		Error  *struct {
			Code    string `xml:"code"`
			Message string `xml:"message"`
		} `xml:"responseError"`
	}
	v := &struct {
		header
		Deleted set[deletion] `xml:"successfullyDeletedLaunchTemplateVersionSet"`
		Failed  set[deletion] `xml:"unsuccessfullyDeletedLaunchTemplateVersionSet"`
	}{}
	for _, version := range versions {
		d := deletion{ID: t.ID, Name: t.Name, Number: version}
		_, err := c.region.DeleteVersion(t.ID, "", version)
		e, refused := errors.AsType[*region.Error](err)
		if !refused {
			v.Deleted.Items = append(v.Deleted.Items, d)
			continue
		}
		d.Error = &struct {
			Code    string `xml:"code"`
			Message string `xml:"message"`
		}{"unexpectedError", e.Message}
		if strings.HasSuffix(e.Code, "VersionNotFound") {
			d.Error.Code = "launchTemplateVersionDoesNotExist"
		}
		v.Failed.Items = append(v.Failed.Items, d)
	}
	return v, nil
}

// getLaunchTemplateData describes a machine as a template would.
func getLaunchTemplateData(c *call) (answer, error) {
	id := c.required("InstanceId")
	if err := c.ready(); err != nil {
		return nil, err
	}
	i, ok := c.region.Instance(c.now, id)
	if !ok {
		return nil, region.NotFound(id)
	}
	given := map[string]string{
		"ImageId": i.Image, "InstanceType": i.Pool.Type, "KeyName": i.KeyName, "EbsOptimized": strconv.FormatBool(i.EBSOptimized),
		"Placement.AvailabilityZone": i.Pool.Zone, "Placement.Tenancy": "default", "Monitoring.Enabled": strconv.FormatBool(i.Monitored),
		"HibernationOptions.Configured": strconv.FormatBool(i.Hibernation), "DisableApiTermination": strconv.FormatBool(i.Protected), "UserData": machineAttributes["userData"](i),
		"NetworkInterface.1.DeviceIndex": "0", "NetworkInterface.1.SubnetId": c.subnetOf(i.Pool.Zone),
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpEndpoint": "enabled",
	}
	for n, group := range i.Groups {
		given["NetworkInterface.1."+item("SecurityGroupId", n+1)] = group
	}
	if i.Bid != 0 {
		given["InstanceMarketOptions.MarketType"], given["InstanceMarketOptions.SpotOptions.MaxPrice"] = "spot", priceText(i.Bid)
	}
	for n, key := range slices.Sorted(maps.Keys(i.Tags)) {
		given["TagSpecification.1.ResourceType"] = "instance"
		given["TagSpecification.1."+item("Tag", n+1)+".Key"] = key
		given["TagSpecification.1."+item("Tag", n+1)+".Value"] = i.Tags[key]
	}
	maps.DeleteFunc(given, func(_, value string) bool { return value == "" })
	return &struct {
		header
		Data node
	}{Data: nodeOf("launchTemplateData", "Set", given)}, nil
}

// node is an element with others below it.
type node struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Below   []node
}

// nodeOf turns parameters into the elements as which they are read back: BlockDeviceMapping.1.Ebs.VolumeSize is blockDeviceMappingSet >
// item > ebs > volumeSize. Names of lists get the suffix.
func nodeOf(name, suffix string, given map[string]string) node {
	n := node{XMLName: xml.Name{Local: name}}
	below := make(map[string]map[string]string)
	for path, value := range given {
		if path == "" {
			n.Text = value
			continue
		}
		top, rest, _ := strings.Cut(path, ".")
		if below[top] == nil {
			below[top] = make(map[string]string)
		}
		below[top][rest] = value
	}
	for _, top := range slices.SortedFunc(maps.Keys(below), byNumber) {
		child := strings.ToLower(top[:1]) + top[1:]
		if _, err := strconv.Atoi(top); err == nil {
			child = "item"
		} else if isList(below[top]) {
			child += suffix
			switch { // where EC2's own names differ
			case top == "LicenseSpecification" && suffix != "":
				child = "licenseSet"
			case top == "SecurityGroupId" && name == "item":
				child = "groupSet"
			}
		}
		one := nodeOf(child, suffix, below[top])
		if name == "groupSet" && suffix != "" {
			one.XMLName.Local = "groupId"
		}
		n.Below = append(n.Below, one)
	}
	return n
}

func isList(below map[string]string) bool {
	for path := range below {
		top, _, _ := strings.Cut(path, ".")
		if _, err := strconv.Atoi(top); err != nil {
			return false
		}
	}
	return true
}

// byNumber orders "2" before "10", and words by themselves.
func byNumber(a, b string) int {
	if len(a) != len(b) && a[0] <= '9' && b[0] <= '9' {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
