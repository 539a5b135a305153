package desk

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// The messages. The path names the job.
type (
	// shown is a job's slots, and when the warned ones go.
	shown struct {
		Slots     []provisioner.Instance               `json:"slots"`
		Deadlines map[provisioner.InstanceID]time.Time `json:"deadlines,omitempty"`
	}
	// asked is a job's request. Size is that of each slot; zero = the type's, as for prices.
	asked struct {
		provisioner.Request
		Size hosts.Size `json:"size,omitzero"`
	}
	pricesAsked struct {
		Pools        []market.Pool `json:"pools"`
		Since, Until time.Time
		Size         hosts.Size `json:"size,omitzero"`
	}
	poolPrices struct {
		Pool   market.Pool         `json:"pool"`
		Points []market.PricePoint `json:"points"`
	}
	failure struct {
		Kind string `json:"kind,omitempty"` // the contract's; empty = no kind
		Text string `json:"text"`
	}
	// report is a host's agent's report, and Orders the answer.
	report struct {
		Launch string                            `json:"launch"` // of the host
		Gone   map[provisioner.InstanceID]string `json:"gone,omitempty"`
		Warned *tiers.Warned                     `json:"warned,omitempty"` // of the host's end; it is repeated
		Seen   string                            `json:"seen,omitempty"`   // the orders that it has: the answer waits for others
	}
)

// Order is one slot, as its host's agent receives it.
type Order struct {
	Slot     provisioner.InstanceID `json:"slot"`
	Job      string                 `json:"job"`
	User     int                    `json:"user,omitempty"` // owner of the process; 0 = the agent's own user
	Type     string                 `json:"type"`
	Size     hosts.Size             `json:"size"`
	UserData string                 `json:"user_data"`
	Leaving  bool                   `json:"leaving,omitempty"` // its process should end
	Deadline time.Time              `json:"deadline,omitzero"` // of the host's end; zero = unknown
}

// Orders are all slots of a host.
type Orders struct {
	Host  hosts.Size `json:"host"`
	Slots []Order    `json:"slots"`
	Seen  string     `json:"seen"` // identifies this state
}

// kinds are the contract's errors by the words that are sent.
var kinds = map[string]error{
	"no-capacity": provisioner.ErrNoCapacity, "limit": provisioner.ErrLimit, "invalid": provisioner.ErrInvalid, "temporary": provisioner.ErrTemporary,
	"denied": provisioner.ErrDenied,
}

// errGone answers the agent of a host that was given up: it ends.
var errGone = errors.New("this host was given up")

// mostBody bounds a message, in bytes: user data is a few kilobytes.
const mostBody = 1 << 20

// HostsHandler serves hosts' agents.
func (d *Desk) HostsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hosts/{host}", d.answering(d.serveHost))
	return mux
}

// Handler serves jobs and hosts' agents.
func (d *Desk) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/hosts/", d.HostsHandler())
	job := func(f func(w http.ResponseWriter, r *http.Request, job string) error) http.HandlerFunc {
		return d.answering(func(w http.ResponseWriter, r *http.Request) error {
			if !d.admits(r) {
				return provisioner.ErrDenied
			}
			return f(w, r, r.PathValue("job"))
		})
	}
	mux.HandleFunc("POST /jobs/{job}/launch", job(d.serveLaunch))
	mux.HandleFunc("POST /jobs/{job}/terminate", job(d.serveTerminate))
	mux.HandleFunc("POST /jobs/{job}/profile", job(d.serveProfile))
	mux.HandleFunc("POST /jobs/{job}/prices", job(d.servePrices))
	mux.HandleFunc("GET /jobs/{job}", job(d.serveSlots))
	return mux
}

// userKey is the context key of a connection's user.
type userKey struct{}

// WithUser marks a connection as one of a user of this host's system other than the Desk's own. A negative number means an unknown user.
func WithUser(ctx context.Context, uid int) context.Context {
	return context.WithValue(ctx, userKey{}, uid)
}

// userOf returns the user of a request; 0 = the Desk's own.
func userOf(r *http.Request) int {
	uid, _ := r.Context().Value(userKey{}).(int)
	return uid
}

// admits reports whether a request about a job may be answered. The kernel identifies other users, which see only their own jobs; processes
// of the Desk's user present the key.
func (d *Desk) admits(r *http.Request) (admitted bool) {
	user := userOf(r)
	if user == 0 {
		return carries(r, jobKey(d.cfg.Secret))
	}
	if user < 0 {
		return false
	}
	d.look(func() { admitted = d.brain.Book.Admits(user, r.PathValue("job")) })
	return admitted
}

// isHost reports whether a request comes from a host: by its certificate, or without TLS by the key of its launch.
func (d *Desk) isHost(r *http.Request, id step.ID, launch string) bool {
	if r.TLS == nil {
		return carries(r, HostKey(d.cfg.Secret, launch))
	}
	return len(r.TLS.PeerCertificates) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == string(id)
}

// carries reports whether a request has the key.
func carries(r *http.Request, key string) bool {
	given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return found && subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1
}

func (d *Desk) answering(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		err := f(w, r)
		if err == nil {
			return
		}
		status, out := http.StatusInternalServerError, failure{Text: err.Error()}
		for word, kind := range kinds {
			if errors.Is(err, kind) {
				status, out.Kind = http.StatusConflict, word
			}
		}
		if errors.Is(err, errGone) {
			status = http.StatusGone
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // a client that has disconnected needs no answer
	}
}

func write(w http.ResponseWriter, v any) error {
	_ = json.NewEncoder(w).Encode(v) // a client that has disconnected needs no answer
	return nil
}

func read(r *http.Request, v any) error {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		return errors.Join(provisioner.ErrInvalid, err)
	}
	return nil
}

func (d *Desk) serveLaunch(w http.ResponseWriter, r *http.Request, job string) error {
	var of asked
	if err := read(r, &of); err != nil {
		return err
	}
	var got []provisioner.Instance
	err := d.decide(func(now time.Time) (err error) {
		got, err = d.brain.Ask(now, userOf(r), job, of.Request, of.Size)
		return err
	})
	if err != nil {
		return err
	}
	return write(w, shown{Slots: got})
}

func (d *Desk) serveTerminate(w http.ResponseWriter, r *http.Request, job string) error {
	var ids []provisioner.InstanceID
	if err := read(r, &ids); err != nil {
		return err
	}
	err := d.decide(func(now time.Time) error { d.brain.Book.Return(now, job, ids...); return nil })
	if err != nil {
		return err
	}
	return write(w, shown{})
}

func (d *Desk) serveProfile(w http.ResponseWriter, r *http.Request, job string) error {
	var of tiers.Served
	if err := read(r, &of); err != nil {
		return err
	}
	var preferred tiers.Preference
	err := d.decide(func(now time.Time) (err error) {
		preferred, err = d.brain.Book.Report(now, job, of)
		return err
	})
	if err != nil {
		return err
	}
	return write(w, preferred)
}

func (d *Desk) serveSlots(w http.ResponseWriter, _ *http.Request, job string) error {
	var s shown
	d.look(func() { s = shown{d.brain.Book.Of(job), d.brain.Book.Deadlines(job)} })
	return write(w, s)
}

func (d *Desk) servePrices(w http.ResponseWriter, r *http.Request, _ string) error {
	var asked pricesAsked
	if err := read(r, &asked); err != nil {
		return err
	}
	var all []poolPrices
	d.look(func() {
		for _, p := range asked.Pools {
			all = append(all, poolPrices{p, d.brain.SlotPrices(p.Type, asked.Size, p.Class, asked.Since, asked.Until)})
		}
	})
	return write(w, all)
}

// serveHost handles a host's report, and answers with its slots: at once if they differ from those seen, else when they change or the next
// call is due.
func (d *Desk) serveHost(w http.ResponseWriter, r *http.Request) error {
	id := step.ID(r.PathValue("host"))
	var said report
	if err := read(r, &said); err != nil {
		return err
	}
	if !d.isHost(r, id, said.Launch) {
		return provisioner.ErrDenied
	}
	known := false
	err := d.decide(func(now time.Time) error {
		known = d.brain.Called(id, said.Launch)
		if said.Warned != nil {
			d.brain.Warn(id, *said.Warned)
		}
		for slot, why := range said.Gone {
			d.brain.Book.Gone(now, id, slot, why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !known {
		return errGone
	}
	late := time.After(hosts.CallEvery / 2)
	for {
		var out Orders
		changed := d.look(func() { out = d.orders(id) })
		if out.Seen != said.Seen {
			return write(w, out)
		}
		select {
		case <-changed:
		case <-late:
			return write(w, out)
		case <-r.Context().Done():
			return nil
		}
	}
}

// orders returns a host's slots. The lock must be held.
func (d *Desk) orders(id step.ID) (out Orders) {
	h := d.brain.Book.Host(id)
	if h == nil {
		return out
	}
	out.Host = h.Size
	for _, s := range d.brain.Book.On(id) {
		out.Slots = append(out.Slots, Order{Slot: s.ID, Job: s.Job, User: s.User, Type: s.Pool.Type, Size: s.Size, UserData: s.UserData, Leaving: s.Leaving(),
			Deadline: h.Deadline})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings, numbers and times can always be marshalled
	}
	out.Seen = seal("", string(text))
	return out
}
