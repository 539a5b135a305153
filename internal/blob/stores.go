package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/aws"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"

	"github.com/tierml/tierml/internal/location"
)

func openBucket(ctx context.Context, p location.Place) (*blob.Bucket, error) {
	u := &url.URL{Scheme: p.Scheme(), Host: p.Bucket(), RawQuery: settings(p).Encode()}
	source := given.Load()
	if source == nil || !p.Signed() {
		return blob.OpenBucket(ctx, u.String())
	}
	keys, err := (*source)()
	if err != nil {
		return nil, err
	}
	if p.Scheme() == "gs" {
		client, err := gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.TokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: keys.Token, Expiry: keys.Expires})))
		if err != nil {
			return nil, err
		}
		return (&gcsblob.URLOpener{Client: client}).OpenBucketURL(ctx, u)
	}
	return openS3(ctx, u, keys)
}

// openS3 does what the library does with a URL, with other credentials.
func openS3(ctx context.Context, u *url.URL, keys Keys) (*blob.Bucket, error) {
	query := u.Query()
	is := func(name string) bool {
		defer query.Del(name)
		return query.Get(name) == "true"
	}
	pathStyle, plain := is("use_path_style"), is("disable_https")
	config, err := aws.V2ConfigFromURLParams(ctx, query)
	if err != nil {
		return nil, err
	}
	config.Credentials = credentials.NewStaticCredentialsProvider(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken)
	client := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle, o.EndpointOptions.DisableHTTPS = pathStyle, plain })
	return s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{RequestChecksumCalculation: config.RequestChecksumCalculation})
}

// openObject opens a bucket for as long as the object is read. Length -1 is to the end.
func openObject(ctx context.Context, name string, p location.Place, offset, length int64) (io.ReadCloser, error) {
	bucket, err := openBucket(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	reader, err := bucket.NewRangeReader(ctx, p.Key(), offset, length, nil)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound || gcerrors.Code(err) == gcerrors.PermissionDenied && missing(ctx, bucket, p.Key()) {
			err = fs.ErrNotExist
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w%s", name, err, advice(err)), bucket.Close())
	}
	return &object{reader, bucket}, nil
}

// missing reports whether an unreadable object does not exist. S3 denies reading a missing object unless the whole bucket may be listed,
// which machines may not: they list below their prefixes.
func missing(ctx context.Context, bucket *blob.Bucket, key string) bool {
	all := bucket.List(&blob.ListOptions{Prefix: key})
	for {
		o, err := all.Next(ctx)
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if o.Key == key {
			return false
		}
	}
}

// advice returns a remedy for what the libraries find missing: their messages are for programmers.
func advice(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "Invalid region"):
		return "; no region is known: set AWS_REGION, or add ?region=NAME to the URL"
	case strings.Contains(text, "credentials"):
		return "; no credentials are found: set those of the store, such as AWS_PROFILE, or add ?anonymous=true to the URL of a public object"
	}
	return ""
}

// settings returns the place's, with those that a store on another endpoint than the provider's needs: buckets as the first part of the
// path, as their names are not hosts there, and for an emulator of GCS no credentials.
func settings(p location.Place) url.Values {
	query := maps.Clone(p.Settings())
	if query == nil {
		query = url.Values{}
	}
	set := func(name, value string) {
		if !query.Has(name) {
			query.Set(name, value)
		}
	}
	switch p.Scheme() {
	case "s3":
		if query.Has("endpoint") || os.Getenv("AWS_ENDPOINT_URL") != "" || os.Getenv("AWS_ENDPOINT_URL_S3") != "" {
			set("use_path_style", "true")
		}
	case "gs":
		if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
			set("anonymous", "true")
		}
	}
	return query
}

type object struct {
	*blob.Reader
	bucket *blob.Bucket
}

func (o *object) Close() error { return errors.Join(o.Reader.Close(), o.bucket.Close()) }

// inBucket runs f in an object's bucket.
func inBucket(ctx context.Context, p location.Place, do func(*blob.Bucket) error) error {
	bucket, err := openBucket(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(do(bucket), bucket.Close())
}

func writeObject(ctx context.Context, p location.Place, write func(io.Writer) error) error {
	return inBucket(ctx, p, func(bucket *blob.Bucket) error {
		ctx, cancel := context.WithCancel(ctx) // if done before Close, it leaves no object
		defer cancel()
		writer, err := bucket.NewWriter(ctx, p.Key(), &blob.WriterOptions{ContentType: "application/octet-stream"})
		if err != nil {
			return err
		}
		if err := write(writer); err != nil {
			cancel()
			_ = writer.Close() // reports that it was cancelled
			return err
		}
		return writer.Close()
	})
}

func listObjects(ctx context.Context, p location.Place) (objects []Object, err error) {
	err = inBucket(ctx, p, func(bucket *blob.Bucket) error {
		all := bucket.List(&blob.ListOptions{Prefix: p.Key() + "/"})
		for {
			o, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			objects = append(objects, Object{Path: strings.TrimPrefix(o.Key, p.Key()+"/"), Bytes: o.Size})
		}
	})
	return objects, err
}

func removeObject(ctx context.Context, p location.Place) error {
	return inBucket(ctx, p, func(bucket *blob.Bucket) error {
		err := bucket.Delete(ctx, p.Key())
		if gcerrors.Code(err) == gcerrors.NotFound {
			return fs.ErrNotExist
		}
		return err
	})
}
