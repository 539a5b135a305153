package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
	"github.com/tierml/tierml/tiers"
)

// Cloud is one job's view of the shared hosts: slots are its machines.
type Cloud struct {
	provisioner.Basic
	client
	directory, job string
	size           hosts.Size
	poll           time.Duration
	traits         provisioner.Traits
	log            *slog.Logger
}

// Connect returns the slots of a job on the shared hosts of a run's directory; the job's name is unique among jobs with slots. Pools belong
// to a provider; a zero size means that the type says how large a slot is; poll is the time between two checks for notices. It makes no call yet.
func Connect(directory, job, provider string, size hosts.Size, poll time.Duration, log *slog.Logger) *Cloud {
	return &Cloud{client: newClient(), directory: directory, job: job, size: size, poll: poll, log: log,
		traits: provisioner.Traits{Provider: provider, Bills: true}}
}

// Traits returns the traits of slots: there are no bids, and each slot's cost is reported.
func (c *Cloud) Traits() provisioner.Traits { return c.traits }

// Launch requests slots.
func (c *Cloud) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	if err := r.Validate(c.traits); err != nil {
		return nil, err
	}
	var got shown
	if err := c.call(ctx, "asking for slots", http.MethodPost, "/launch", asked{r, c.size}, &got); err != nil {
		return nil, err
	}
	return got.Slots, nil
}

// Terminate gives slots back.
func (c *Cloud) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	return c.call(ctx, "giving slots back", http.MethodPost, "/terminate", ids, &shown{})
}

// Profile reports the load of serving the job's model, and returns how the shared hosts would have it served.
func (c *Cloud) Profile(ctx context.Context, of tiers.Served) (preferred tiers.Preference, err error) {
	err = c.call(ctx, "reporting what serving takes", http.MethodPost, "/profile", of, &preferred)
	return preferred, err
}

// List returns the job's slots.
func (c *Cloud) List(ctx context.Context) ([]provisioner.Instance, error) {
	got, err := c.look(ctx)
	return got.Slots, err
}

func (c *Cloud) look(ctx context.Context) (got shown, err error) {
	return got, c.call(ctx, "listing slots", http.MethodGet, "", nil, &got)
}

// Notify forwards notices of the hosts of the job's slots, and the slots' ends.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	return adapter.Watch(ctx, c.log, c.poll, func(ctx context.Context) (all []adapter.Shown, err error) {
		got, err := c.look(ctx)
		for _, i := range got.Slots {
			all = append(all, adapter.Shown{Instance: i, Deadline: got.Deadlines[i.ID]})
		}
		return all, err
	}, f)
}

// SpotPrices returns the prices of slots: their share of the cheapest host.
func (c *Cloud) SpotPrices(ctx context.Context, pools []market.Pool, since, until time.Time) (map[market.Pool][]market.PricePoint, error) {
	var got []poolPrices
	if err := c.call(ctx, "asking for the prices of slots", http.MethodPost, "/prices", pricesAsked{pools, since, until, c.size}, &got); err != nil {
		return nil, err
	}
	all := map[market.Pool][]market.PricePoint{}
	for _, p := range got {
		all[p.Pool] = p.Points
	}
	return all, nil
}

// call calls the Desk at its present address: after a restart it may have another one.
func (c *Cloud) call(ctx context.Context, doing, method, path string, in, out any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	at, err := readDoor(c.directory)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", doing, provisioner.ErrTemporary, err)
	}
	_, err = c.send(ctx, method, "http://"+at.Address+"/jobs/"+url.PathEscape(c.job)+path, at.Key, in, out)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// client calls a Desk.
type client struct{ http *http.Client }

func newClient() client {
	return client{&http.Client{Transport: &http.Transport{DialContext: sameuser.Dial, IdleConnTimeout: time.Minute}}}
}

// Close closes idle connections.
func (c client) Close() { c.http.CloseIdleConnections() }

// send makes one call. A missing answer is a temporary error.
func (c client) send(ctx context.Context, method, url, key string, in, out any) (status int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	answer, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, fmt.Errorf("%w: %w", provisioner.ErrTemporary, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var f failure
		text, _ := io.ReadAll(io.LimitReader(answer.Body, mostBody)) // show what was received
		if json.Unmarshal(text, &f) != nil {
			return answer.StatusCode, fmt.Errorf("%w: %s: %s", provisioner.ErrTemporary, answer.Status, text)
		}
		if kind := kinds[f.Kind]; kind != nil {
			return answer.StatusCode, &deskError{kind, f.Text}
		}
		return answer.StatusCode, fmt.Errorf("%w: %s", provisioner.ErrTemporary, f.Text)
	}
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return answer.StatusCode, ctx.Err()
		}
		return answer.StatusCode, fmt.Errorf("%w: %w", provisioner.ErrTemporary, err)
	}
	return answer.StatusCode, nil
}

// deskError is an error in the Desk's words.
type deskError struct {
	kind error
	text string
}

func (t *deskError) Error() string { return t.text }
func (t *deskError) Unwrap() error { return t.kind }

// Host is a host's agent's side.
type Host struct {
	client
	base   string // of the Desk
	key    string
	launch string // that bought the host
	id     string
}

// NewHost returns the side of a host's agent: with a certificate, or without TLS with a key. It makes no call yet.
func NewHost(address, key, launch, id string, own *trust.Credential) *Host {
	if own == nil {
		return &Host{newClient(), "http://" + address, key, launch, id}
	}
	transport := &http.Transport{TLSClientConfig: own.Config(trust.Controller), ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return &Host{client{&http.Client{Transport: transport}}, "https://" + address, "", launch, id}
}

// Said is the report of a host's agent: which slots' processes have ended, and why, and the provider's warning.
type Said struct {
	Gone   map[provisioner.InstanceID]string
	Warned *tiers.Warned
}

// ErrGone: the host was given up, and its slots no longer cost anything.
var ErrGone = errGone

// Call reports, and returns the host's slots when they differ from those seen, or after a while.
func (h *Host) Call(ctx context.Context, said Said, seen string) (out Orders, err error) {
	status, err := h.send(ctx, http.MethodPost, h.base+"/hosts/"+url.PathEscape(h.id), h.key, report{h.launch, said.Gone, said.Warned, seen}, &out)
	if status == http.StatusGone {
		return out, ErrGone
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("calling the shared hosts' desk: %w", err)
	}
	return out, err
}
