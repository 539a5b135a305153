//go:build !noblob

package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// openObject opens a bucket for as long as the object is read.
func openObject(ctx context.Context, name string, p place) (io.ReadCloser, error) {
	p.defaults()
	bucket, err := blob.OpenBucket(ctx, (&url.URL{Scheme: p.scheme, Host: p.bucket, RawQuery: p.query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	reader, err := bucket.NewReader(ctx, p.key, nil)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound {
			err = fs.ErrNotExist
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), bucket.Close())
	}
	return &object{reader, bucket}, nil
}

// defaults are settings that a store on another endpoint than the provider's wants: buckets as the first part of the
// path, as their names are no hosts there, and for an emulator of GCS no credentials.
func (p *place) defaults() {
	set := func(name, value string) {
		if !p.query.Has(name) {
			p.query.Set(name, value)
		}
	}
	switch p.scheme {
	case "s3":
		if p.query.Has("endpoint") || os.Getenv("AWS_ENDPOINT_URL") != "" || os.Getenv("AWS_ENDPOINT_URL_S3") != "" {
			set("use_path_style", "true")
		}
	case "gs":
		if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
			set("anonymous", "true")
		}
	}
}

type object struct {
	*blob.Reader
	bucket *blob.Bucket
}

func (o *object) Close() error { return errors.Join(o.Reader.Close(), o.bucket.Close()) }
