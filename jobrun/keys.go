package jobrun

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/providers"
)

// grants are the credentials for the run's own part of its store, which machines get with their certificates.
type grants struct {
	keys   providers.RunKeys
	run    string
	folder location.Place
	now    func() time.Time

	mu      sync.Mutex
	text    json.RawMessage
	got     time.Time
	expires time.Time
}

// grant returns the source of machines' credentials; nil if their own are used, and for shared hosts, whose jobs bring theirs.
func (r *session) grant(ctx context.Context) (trust.Grant, error) {
	if r.keys == nil || r.cfg.Hosts != nil || !location.IsURL(r.state.Checkpoints) {
		return nil, nil
	}
	folder, err := location.Parse(r.state.Checkpoints)
	if err != nil {
		return nil, err
	}
	g := &grants{keys: r.keys, run: r.name, folder: folder, now: time.Now}
	switch _, ok, err := r.keys.RunKeys(ctx, r.name, folder); { // before buying anything that could not use its store
	case err != nil:
		return nil, err
	case !ok:
		return nil, nil
	}
	return g.give, nil
}

// give returns credentials that are valid for more than three quarters of their life.
func (g *grants) give(ctx context.Context) (json.RawMessage, time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if g.text == nil || now.Sub(g.got) > g.expires.Sub(g.got)/4 {
		keys, _, err := g.keys.RunKeys(ctx, g.run, g.folder)
		if err != nil {
			return nil, 0, err
		}
		text, err := json.Marshal(keys)
		if err != nil {
			return nil, 0, err
		}
		g.text, g.got, g.expires = text, now, keys.Expires
	}
	return g.text, g.expires.Sub(now), nil
}
