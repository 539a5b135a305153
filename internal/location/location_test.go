package location

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// FuzzPlace: a name's canonical form leads to the same place, and other parsers agree: it is a URL that net/url reads as the same store,
// bucket, key and settings, or a path.
func FuzzPlace(f *testing.F) {
	for _, name := range []string{
		"a/b", "/a", "file:///a", "FILE:///a%2fb", "file:////a", "s3://b/k", "S3://b/k?region=eu-west-1", "gs://b/a%3Fb?anonymous=1", "s3://b/%2e%2e/x",
		"s3://b/k?endpoint=http://h&endpoint=x", "s3://b@c/k", "s3://b:80/k", "s3://[::1]/k", "gs://b/k#x", "x://s3://b/k", "s3://b/k?a;b", "s3://b//k/", "file:///a://b",
		"s3:///k", "s3://ｂ/k", " s3://b/k", "s3://b/k?region=a.b", "file:/x://", "file:///a?b", "file:///%00", "s3://b/\xff",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := Parse(name)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		if err != nil || !reflect.DeepEqual(normal(again), normal(p)) {
			t.Fatalf("%q is %+v, and its form %q is %+v, %v", name, p, p.String(), again, err)
		}
		if path, ok := p.File(); ok {
			if IsURL(p.String()) || path != p.String() {
				t.Fatalf("%q is the file %q, named %q", name, path, p)
			}
			return
		}
		u, err := url.Parse(p.String())
		if err != nil || u.Scheme != "s3" && u.Scheme != "gs" || u.Host != p.bucket || u.User != nil || u.Port() != "" || strings.ContainsAny(u.Host, "/@:?#%[] ") ||
			strings.TrimPrefix(u.Path, "/") != p.key || !reflect.DeepEqual(u.Query(), p.Settings()) {
			t.Fatalf("%q is %+v, but %q is read as %+v, %v", name, p, p, u, err)
		}
	})
}

// normal makes empty settings nil.
func normal(p Place) Place {
	if len(p.query) == 0 {
		p.query = nil
	}
	return p
}
