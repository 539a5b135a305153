package region

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/market"
)

// Template is a launch template, as of one of its versions.
type Template struct {
	ID       string
	Name     string
	Created  time.Time
	Tags     map[string]string
	Default  int               // a version's number
	Versions []TemplateVersion // oldest first, at least one
	TemplateVersion

	Count int // total number of versions ever made: their numbers are not reused
}

// TemplateVersion describes the machines to launch.
type TemplateVersion struct {
	Number int
	Note   string
	Made   time.Time
	Data   TemplateData
	Given  map[string]string // the parameters that Data was read from
}

// TemplateData is a launch's description.
type TemplateData struct {
	Type        string
	Zone        string
	Image       string
	Subnet      string // implies its zone
	KeyName     string
	Groups      []string // ids or names of security groups
	UserData    []byte
	Spot        bool
	MaxPrice    market.USD
	Tags        map[string]string
	RequestTags map[string]string
	Shown
}

// Latest is the newest version's number.
func (t Template) Latest() int { return t.Versions[len(t.Versions)-1].Number }

// At returns the template as of a version: its number, "$Latest", or "$Default", which "" is, too.
func (t Template) At(version string) (Template, error) {
	number, err := t.number(version)
	if err != nil {
		return t, err
	}
	for _, v := range t.Versions {
		if v.Number == number {
			t.TemplateVersion = v
			return t, nil
		}
	}
	return t, Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
}

func (t Template) number(version string) (int, error) {
	switch version {
	case "", "$Default":
		return t.Default, nil
	case "$Latest":
		return t.Latest(), nil
	}
	n, err := strconv.Atoi(version)
	if err != nil || n < 1 {
		return 0, Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
	}
	return n, nil
}

// clone separates the caller's copy from later changes. Versions do not change.
func (t *Template) clone() Template {
	c := *t
	c.Tags, c.Versions = maps.Clone(t.Tags), slices.Clone(t.Versions)
	c, _ = c.At("") // the default always exists
	return c
}

// CreateTemplate stores a template with its first version under a new name.
func (a *Account) CreateTemplate(now time.Time, t Template) (Template, error) {
	if slices.ContainsFunc(a.templates, func(old *Template) bool { return old.Name == t.Name }) {
		return Template{}, Errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	t.ID, t.Created, t.Default = a.names.next("lt"), seconds(now), 1
	a.templates = append(a.templates, &t)
	t.add(now, t.TemplateVersion)
	return t.clone(), nil
}

func (t *Template) add(now time.Time, v TemplateVersion) {
	t.Count++
	v.Number, v.Made = t.Count, seconds(now)
	t.Versions = append(t.Versions, v)
}

// AddVersion adds a version to a template, and returns the template as of it.
func (a *Account) AddVersion(now time.Time, id, name string, v TemplateVersion) (Template, error) {
	t, err := a.template(id, name)
	if err != nil {
		return Template{}, err
	}
	t.add(now, v)
	return t.clone().At("$Latest")
}

// SetDefault makes a version the default.
func (a *Account) SetDefault(id, name, version string) (Template, error) {
	t, as, err := a.templateAt(id, name, version)
	if err != nil {
		return Template{}, err
	}
	t.Default = as.Number
	return t.clone(), nil
}

// DeleteVersion removes a version, except the default.
func (a *Account) DeleteVersion(id, name, version string) (Template, error) {
	t, as, err := a.templateAt(id, name, version)
	if err != nil {
		return Template{}, err
	}
	if as.Number == t.Default {
		return as, Errorf("OperationNotPermitted", "The default version of a launch template cannot be deleted.")
	}
	t.Versions = slices.DeleteFunc(slices.Clone(t.Versions), func(v TemplateVersion) bool { return v.Number == as.Number })
	return as, nil
}

// Templates returns the launch templates, oldest first.
func (a *Account) Templates() (list []Template) {
	for _, t := range a.templates {
		list = append(list, t.clone())
	}
	return list
}

// Template finds one by id or else by name, as of its default version.
func (a *Account) Template(id, name string) (Template, error) {
	t, err := a.template(id, name)
	if err != nil {
		return Template{}, err
	}
	return t.clone(), nil
}

func (a *Account) template(id, name string) (*Template, error) {
	for _, t := range a.templates {
		if id != "" && t.ID == id || id == "" && t.Name == name {
			return t, nil
		}
	}
	if id != "" {
		return nil, Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	return nil, Errorf("InvalidLaunchTemplateName.NotFoundException",
		"The specified launch template, with template name %s, does not exist.", name)
}

// templateAt finds one as of a version.
func (a *Account) templateAt(id, name, version string) (t *Template, as Template, err error) {
	if t, err = a.template(id, name); err == nil {
		as, err = t.At(version)
	}
	return t, as, err
}

// DeleteTemplate removes one with its versions.
func (a *Account) DeleteTemplate(id, name string) (Template, error) {
	t, err := a.template(id, name)
	if err != nil {
		return Template{}, err
	}
	a.templates = slices.DeleteFunc(a.templates, func(old *Template) bool { return old == t })
	return t.clone(), nil
}
