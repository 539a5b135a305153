// Package location parses the names of files, wherever they are: a path on this machine (also as file:///PATH), s3://BUCKET/KEY or
// gs://BUCKET/KEY. It opens nothing: package blob does, with the stores' libraries.
package location

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// Place is what a name refers to. Only Parse creates one: code that decides about a name decides about its Place, and keeps its String,
// which refers to the same place.
type Place struct {
	scheme string // "" is a path on this machine
	bucket string
	key    string
	query  url.Values // settings of the store, as gocloud.dev knows them, such as region; one value each
}

var (
	// bucketName matches the names of buckets in S3 or GCS. It becomes a part of a host's name. Repetition counts in expressions would slow
	// down the start of the program.
	bucketName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// regionName becomes a part of a host's name, too.
	regionName = pattern.Of(`^[A-Za-z0-9-]+$`)
)

// IsURL reports whether a name is a URL, not a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Parse reads a name.
func Parse(name string) (Place, error) {
	if !IsURL(name) {
		return Place{key: name}, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return Place{}, fmt.Errorf("%q is not a URL: write s3://BUCKET/KEY or gs://BUCKET/KEY", name)
	}
	p := Place{scheme: u.Scheme, bucket: u.Host, key: strings.TrimPrefix(u.Path, "/")} // the scheme is in lower case
	switch {
	case p.scheme == "file":
		if u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || IsURL(u.Path) {
			return Place{}, fmt.Errorf("%q: write file:///PATH", name)
		}
		return Place{key: u.Path}, nil
	case p.scheme != "s3" && p.scheme != "gs":
		return Place{}, fmt.Errorf("%q: there is no store %q: write s3://BUCKET/KEY or gs://BUCKET/KEY", name, p.scheme)
	case !bucketName().MatchString(p.bucket) || len(p.bucket) > 222 || strings.Trim(p.key, "/") == "" || u.User != nil || u.Fragment != "":
		return Place{}, fmt.Errorf("%q: write %s://BUCKET/KEY", name, p.scheme)
	case slices.ContainsFunc(strings.Split(p.key, "/"), func(s string) bool { return s == "." || s == ".." }):
		return Place{}, fmt.Errorf("%q: a key with . or .. between slashes leads to different objects with different tools", name)
	}
	if p.query, err = settings(u.RawQuery); err != nil {
		return Place{}, fmt.Errorf("%q: %w", name, err)
	}
	return p, nil
}

// settings parses those of a store in a form that all programs read alike: one value for each name.
func settings(query string) (url.Values, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("what is behind the question mark is not NAME=VALUE, joined by &: %w", err)
	}
	for name, values := range q {
		if len(values) != 1 {
			return nil, fmt.Errorf("the setting %q is given %d times", name, len(values))
		}
		switch value := values[0]; name {
		case "region":
			if !regionName().MatchString(value) || len(value) > 63 {
				return nil, fmt.Errorf("%q is no region", value)
			}
		case "anonymous", "use_path_style", "disable_https":
			b, err := strconv.ParseBool(value)
			if err != nil {
				return nil, fmt.Errorf("the setting %s is %q, but should be true or false", name, value)
			}
			q.Set(name, strconv.FormatBool(b))
		}
	}
	return q, nil
}

// String returns the place's canonical name.
func (p Place) String() string {
	if p.scheme == "" {
		return p.key
	}
	return (&url.URL{Scheme: p.scheme, Host: p.bucket, Path: "/" + p.key, RawQuery: p.query.Encode()}).String()
}

// File returns the path of a place on this machine.
func (p Place) File() (path string, ok bool) { return p.key, p.scheme == "" }

// Settings returns the settings of the store.
func (p Place) Settings() url.Values { return p.query }

// Signed reports whether requests for the place are signed with credentials.
func (p Place) Signed() bool { return p.scheme != "" && p.query.Get("anonymous") != "true" }

// Scheme returns the store's scheme, s3 or gs; empty = a path on this machine.
func (p Place) Scheme() string { return p.scheme }

// Bucket returns the store's bucket.
func (p Place) Bucket() string { return p.bucket }

// Key returns the object's name in its bucket, or the path.
func (p Place) Key() string { return p.key }

// Beside returns the name of another file in the same folder.
func Beside(name, other string) string {
	if !IsURL(name) {
		return filepath.Join(filepath.Dir(name), filepath.Base(other))
	}
	location, query, found := strings.Cut(name, "?")
	scheme, rest, _ := strings.Cut(location, "://")
	location = scheme + "://" + path.Join(path.Dir(rest), path.Base(other))
	if found {
		location += "?" + query
	}
	return location
}

// Join returns the name of something below a folder.
func Join(folder string, below ...string) string {
	if !IsURL(folder) {
		return filepath.Join(append([]string{folder}, below...)...)
	}
	location, query, found := strings.Cut(folder, "?")
	scheme, rest, _ := strings.Cut(location, "://")
	location = scheme + "://" + path.Join(append([]string{rest}, below...)...)
	if found {
		location += "?" + query
	}
	return location
}
