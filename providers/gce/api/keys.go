package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/google/downscope"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/provisioner"
)

const tokenWithin = 30 * time.Second

// RunKeys returns a token for one run's objects only, below its folder: this process's own token, narrowed by a
// credential access boundary. It returns false if Config.StoreTokens disables tokens.
func (c *Cloud) RunKeys(ctx context.Context, run string, folder location.Place) (keys blob.Keys, ok bool, err error) {
	return c.config.StoreTokens.RunKeys(ctx, run, folder)
}

// RunKeys returns what Cloud.RunKeys does.
func (s StoreTokens) RunKeys(ctx context.Context, _ string, folder location.Place) (keys blob.Keys, ok bool, err error) {
	if !s.Give || folder.Scheme() != "gs" {
		return keys, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	root := s.From
	if root == nil { // a new one each time: a cached token is used until it expires, and the run's token expires with it
		if root, err = google.DefaultTokenSource(ctx, cloudPlatform); err != nil {
			return keys, true, fmt.Errorf("getting a token for the run's machines: %w: %w", provisioner.ErrDenied, err)
		}
	}
	rules, err := AccessBoundary(folder)
	if err != nil {
		return keys, true, err
	}
	source, err := downscope.NewTokenSource(ctx, downscope.DownscopingConfig{RootSource: root, Rules: rules})
	if err != nil {
		return keys, true, fmt.Errorf("getting a token for the run's machines: %w: %w", provisioner.ErrInvalid, err)
	}
	token, err := source.Token()
	if err != nil {
		return keys, true, fmt.Errorf("getting a token for the run's machines: %w: %w", provisioner.ErrTemporary, err)
	}
	return blob.Keys{Token: token.AccessToken, Expires: token.Expiry}, true, nil
}

// AccessBoundary narrows a token to what one run's machines do: they read the run's folder and data/, write parts of
// its checkpoints, and keep the state and logs of its programs.
func AccessBoundary(folder location.Place) ([]downscope.AccessBoundaryRule, error) {
	prefix := strings.Trim(folder.Key(), "/")
	if strings.ContainsAny(prefix, `'"\`) {
		return nil, fmt.Errorf("%w: the folder %s has a quote or backslash in its name", provisioner.ErrInvalid, folder)
	}
	rule := func(role string, any ...string) downscope.AccessBoundaryRule {
		return downscope.AccessBoundaryRule{AvailableResource: "//storage.googleapis.com/projects/_/buckets/" + folder.Bucket(),
			AvailablePermissions: []string{"inRole:" + role}, Condition: &downscope.AvailabilityCondition{Expression: strings.Join(any, " || ")}}
	}
	object := func(name string) string {
		return fmt.Sprintf("resource.name.startsWith('projects/_/buckets/%s/objects/%s')", folder.Bucket(), name)
	}
	lists := func(name string) string {
		return fmt.Sprintf("api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('%s')", name)
	}
	return []downscope.AccessBoundaryRule{
		rule("roles/storage.objectViewer", object(prefix+"/"), object("data/"), lists(prefix+"/"), lists("data/")),
		rule("roles/storage.objectCreator", object(prefix+"/clock-")+" && resource.name.endsWith('.rows')"),
		rule("roles/storage.objectUser", object(prefix+"/program/state/"), object(prefix+"/program/logs/")),
	}, nil
}
