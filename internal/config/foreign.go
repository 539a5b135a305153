package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/blob"
)

// Foreign bounds what a job file that somebody else has sent may name of the host that runs it. Whatever it names is read,
// written or asked with this host's rights: without bounds a job whose data is /etc/shadow says in its complaint what is in it.
type Foreign struct {
	// Allow lists what may be named: directories, whose files may be read, and addresses, which may be asked, with all that
	// begins so.
	Allow []string
}

// LoadForeign is Load for a job file of somebody else. The environment of this process is not his: every ${NAME} needs a value
// in env. Nothing that he may not name is looked at.
func LoadForeign(path string, f Foreign) (*Job, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseFor(path, text, func(string) (string, bool) { return "", false }, "", &f)
}

// file says whether a file of this host may be read. Links within an allowed directory are its owner's doing.
func (f *Foreign) file(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return false
	}
	return slices.ContainsFunc(f.Allow, func(dir string) bool {
		below, err := filepath.Rel(dir, path)
		return filepath.IsAbs(dir) && err == nil && filepath.IsLocal(below)
	})
}

// address says whether a program of this host may be sent to an address of somebody else's choice.
func (f *Foreign) address(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil {
		return false
	}
	return slices.ContainsFunc(f.Allow, func(allowed string) bool {
		a, err := url.Parse(allowed)
		return err == nil && a.Host != "" && a.Scheme == u.Scheme && a.Host == u.Host && strings.HasPrefix(u.Path, a.Path)
	})
}

// storeSettings are those in a store's URL that lead nowhere else and read nothing of this host. Others do: the client of
// gs:// takes the path of a key, that of s3:// the name of a profile.
var storeSettings = []string{"region", "use_path_style", "anonymous"}

// foreign objects to what a foreign job names beside files, which path does.
func (c *checker) foreigner() {
	if c.foreign == nil {
		return
	}
	texts := map[string]string{}
	collectTexts("", reflect.ValueOf(c.job).Elem(), texts)
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		c.foreignText(field, texts[field])
	}
	if to := c.job.Checkpoint.To; to != "" && !blob.IsURL(to) && !c.foreign.file(to) {
		c.fault("checkpoint.to", "is a directory of the controller's host", "name a store, such as s3://BUCKET/PREFIX, or remove the line: then it is in the run's directory there")
	}
}

func (c *checker) foreignText(field, text string) {
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		c.fault(field, "is not an address", "write s3://BUCKET/KEY, gs://BUCKET/KEY or https://HOST/PATH")
	case scheme == "file":
		if !c.foreign.file(u.Path) {
			c.fault(field, "names a place of the controller's host", "name a store, such as s3://BUCKET/PREFIX")
		}
	case scheme == "s3" || scheme == "gs":
		for _, name := range slices.Sorted(maps.Keys(u.Query())) {
			at := u.Query().Get(name)
			own := name == "endpoint" && (c.foreign.address(at) || thisHost(at)) || name == "disable_https"
			if !own && !slices.Contains(storeSettings, name) {
				c.fault(field, fmt.Sprintf("has the setting %s, which a job sent to a controller may not have", name),
					"leave it out, and set it in the controller's environment (AWS_ENDPOINT_URL_S3), or start the controller with --allow and the address")
			}
		}
	case strings.HasSuffix(field, ".endpoint"):
		if !c.foreign.address(text) && !thisHost(text) {
			c.fault(field, "would have the controller show its credentials to another host", "leave it out, or start the controller with --allow and the address")
		}
	case field == "alerts.url":
		if inward(u.Hostname()) && !c.foreign.address(text) {
			c.fault(field, "is an address of the controller's own host or network", "start the controller with --alert-url-file, or with --allow and the address")
		}
	}
}

// thisHost says whether an address is one of the loopback interface, where fake clouds and stores are tried.
func thisHost(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// inward says whether a name is, by its looks, one that others than this host's neighbours cannot reach.
func inward(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || !strings.Contains(host, ".") || strings.HasSuffix(host, ".internal") || net.ParseIP(host) != nil
	}
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6()
}

// collectTexts finds every text of a job, with the path of its field.
func collectTexts(prefix string, v reflect.Value, texts map[string]string) {
	switch v.Kind() {
	case reflect.String:
		texts[prefix] = v.String()
	case reflect.Struct:
		if isScalar(v.Type()) {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			collectTexts(join(prefix, f.name), v.Field(f.index), texts)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collectTexts(fmt.Sprintf("%s[%d]", prefix, i), v.Index(i), texts)
		}
	case reflect.Map:
		for name, value := range v.Seq2() { // any order: each has its place
			collectTexts(join(prefix, name.String()), value, texts)
		}
	case reflect.Interface:
		if !v.IsNil() {
			collectTexts(prefix, v.Elem(), texts)
		}
	}
}
