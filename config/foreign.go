package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/location"
)

// Foreign limits what a submitted job file may name on the host that runs it. Anything it names is read, written or called with this host's
// rights: without limits a job whose data is /etc/shadow would print its content in an error.
type Foreign struct {
	// Allow lists what may be named: directories, whose files may be read, and prefixes of addresses that may be called.
	Allow []string
}

// AllowPrograms in Allow lets jobs run programs of their own on the host itself, whose processes are the machines of cloud: local.
const AllowPrograms = "programs"

// programs reports whether submitted commands may run on this host.
func (f *Foreign) programs() bool { return slices.Contains(f.Allow, AllowPrograms) }

// LoadForeign is Load for a submitted job file. It cannot use this process's environment: every ${NAME} needs a value in env. Nothing
// outside the limits is accessed.
func LoadForeign(file string, f Foreign) (*Job, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return onlyJob(parseFor(file, text, func(string) (string, bool) { return "", false }, Overrides{}, &f))
}

// file reports whether a file of this host may be read. Links within an allowed directory are its owner's responsibility.
func (f *Foreign) file(name string) bool {
	if !filepath.IsAbs(name) || filepath.Clean(name) != name {
		return false
	}
	return slices.ContainsFunc(f.Allow, func(dir string) bool {
		below, err := filepath.Rel(dir, name)
		return filepath.IsAbs(dir) && err == nil && filepath.IsLocal(below)
	})
}

// Address reports whether a program of this host may connect to an address that a submitted job names.
func (f *Foreign) Address(text string) bool {
	u, ok := webAddress(text)
	return ok && slices.ContainsFunc(f.Allow, func(allowed string) bool {
		a, ok := webAddress(allowed)
		if !ok || a.Scheme != u.Scheme || !strings.EqualFold(a.Host, u.Host) {
			return false
		}
		below := strings.TrimSuffix(a.Path, "/")
		return u.Path == below || strings.HasPrefix(u.Path, below+"/")
	})
}

// webAddress parses an address that all programs parse alike: http or https in lower case, a host, and a plain path.
func webAddress(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" || u.String() != text || u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/" {
		return nil, false
	}
	return u, true
}

// storeSettings are the settings in a store's URL that redirect nothing and read nothing of this host. Others do: the client of gs://
// accepts the path of a key, that of s3:// the name of a profile or a role, and without HTTPS any listener sees the requests.
var storeSettings = []string{"region", "use_path_style", "anonymous"}

// foreignStore checks what a foreign job requests of a store besides an object. An unknown setting is refused.
func (c *checker) foreignStore(field string, at location.Place) {
	for _, name := range slices.Sorted(maps.Keys(at.Settings())) {
		if name == "endpoint" && c.foreign.Address(at.Settings().Get(name)) || slices.Contains(storeSettings, name) {
			continue
		}
		c.fault(field, fmt.Sprintf("has the setting %s, which a job sent to a job server may not have", name),
			"leave it out, and set it in the job server's environment (AWS_ENDPOINT_URL_S3), or start the job server with --allow and the address")
	}
}

// foreigner checks what a foreign job names besides files and stores, which path and place do. An address where none is expected is
// refused.
func (c *checker) foreigner() {
	if c.foreign == nil {
		return
	}
	texts := map[string]string{}
	collectTexts("", reflect.ValueOf(c.job).Elem(), texts)
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if texts[field] != "" {
			c.foreignText(field, texts[field])
		}
	}
}

func (c *checker) foreignText(field, text string) {
	switch {
	case strings.HasPrefix(field, "env."):
		// A value: the text in which it is used is checked.
	case slices.Contains([]string{"run", "setup", "on_notice", "progress.line"}, field), strings.HasPrefix(field, "envs."):
		// The program's own: this host does nothing with it.
	case slices.Contains([]string{"train.data", "checkpoint.to", c.job.Cloud + ".checkpoints"}, field):
		// A place: already checked.
	case strings.HasSuffix(field, ".program.url"):
		// Machines fetch it, with their own rights.
	case strings.HasSuffix(field, ".endpoint"):
		if !c.foreign.Address(text) {
			c.fault(field, "would have the job server ask, with its rights, an address of the job's choice", "leave it out, or start the job server with --allow and the address")
		}
	case strings.HasSuffix(field, ".listen"):
		if _, port, err := net.SplitHostPort(text); err == nil && port != "0" {
			c.fault(field, "takes a port of the job server's host", "leave it out, or write port 0: any that is free")
		}
	case strings.Contains(field, ".controller."):
		if named := c.job.Installation(); named != nil && named.Controller.Named() {
			c.fault(field, "says how a job server is reached, to the job server itself", "leave the block controller out")
		}
	case field == "alerts.url":
		if u, err := url.Parse(text); err != nil || inward(u.Hostname()) && !c.foreign.Address(text) {
			c.fault(field, "is an address of the job server's own host or network", "start the job server with --set alert-url-file=FILE, or with --allow and the address")
		}
	case strings.Contains(text, "://"):
		c.fault(field, "is an address, where none is expected", "leave it out")
	}
}

// inward reports whether a name looks like one that only this host and its neighbours can reach.
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
		for _, m := range membersOf(v) {
			collectTexts(join(prefix, m.name), m.value, texts)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collectTexts(fmt.Sprintf("%s[%d]", prefix, i), v.Index(i), texts)
		}
	case reflect.Map:
		for name, value := range v.Seq2() { // in any order: each has its place
			collectTexts(join(prefix, name.String()), value, texts)
		}
	case reflect.Interface:
		if !v.IsNil() {
			collectTexts(prefix, v.Elem(), texts)
		}
	}
}
