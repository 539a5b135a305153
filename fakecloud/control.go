package fakecloud

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// control returns the endpoint for tests and drills to inspect the cloud and to make things happen:
//
//	GET  /_control/healthz    "ok"
//	GET  /_control/clock      market time and the mapping
//	GET  /_control/instances  every instance, with what EC2 would not show
//	GET  /_control/bill       the bill until now
//	GET  /_control/script     the steps still to come
//	POST /_control/do         {"step": "evict oldest 2"}, or a list in "steps"; answers with the targets
func (c *Cloud) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /_control/clock", c.serveClock)
	mux.HandleFunc("GET /_control/instances", c.serveInstances)
	mux.HandleFunc("GET /_control/bill", c.serveBill)
	mux.HandleFunc("GET /_control/script", c.serveScript)
	mux.HandleFunc("POST /_control/do", c.serveDo)
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n')) // a client that has disconnected needs no answer
}

func refuseJSON(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

func (c *Cloud) serveClock(w http.ResponseWriter, _ *http.Request) {
	var now time.Time
	c.Do(func(_ *region.Region, at time.Time) { now = at })
	writeJSON(w, struct {
		Now     time.Time `json:"now"`
		Start   time.Time `json:"start"`
		Speed   float64   `json:"speed"`
		Mapping string    `json:"mapping"`
	}{now.UTC(), c.config.Clock.Market.UTC(), c.config.Clock.Speed, c.config.Clock.String()})
}

// InstanceView is an instance in /_control/instances.
type InstanceView struct {
	ID       string            `json:"id"`
	Pool     market.Pool       `json:"pool"`
	Bid      market.USD        `json:"bid,omitzero"`
	State    string            `json:"state"`
	Launched time.Time         `json:"launched"`
	Ended    time.Time         `json:"ended,omitzero"`
	By       market.EndedBy    `json:"by,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Deadline time.Time         `json:"deadline,omitzero"`
	Metadata string            `json:"metadata,omitempty"` // URL, while the machine runs
	Home     string            `json:"home,omitempty"`     // its folder on this host, likewise
	Tags     map[string]string `json:"tags,omitempty"`
}

// Instances returns every instance, including ended ones, in order of launch.
func (c *Cloud) Instances() []InstanceView {
	views := []InstanceView{}
	c.Do(func(r *region.Region, now time.Time) {
		for _, i := range r.Instances(now) {
			v := InstanceView{
				ID: i.ID, Pool: i.Pool, Bid: i.Bid, State: string(i.State), Launched: i.Launched, Ended: i.Ended,
				By: i.Cause.By, Reason: i.Cause.Code, Deadline: i.Deadline, Tags: i.Tags,
			}
			if m := c.running[i.ID]; m != nil {
				v.Metadata, v.Home = m.endpoint, m.home
			}
			views = append(views, v)
		}
	})
	return views
}

func (c *Cloud) serveInstances(w http.ResponseWriter, _ *http.Request) { writeJSON(w, c.Instances()) }

func (c *Cloud) serveBill(w http.ResponseWriter, _ *http.Request) {
	bill, err := c.Bill()
	if err != nil {
		refuseJSON(w, http.StatusInternalServerError, err)
		return
	}
	writeJSON(w, bill)
}

func (c *Cloud) serveScript(w http.ResponseWriter, _ *http.Request) {
	steps := Script{}
	c.Do(func(*region.Region, time.Time) {
		for _, s := range c.script {
			steps = append(steps, s.Step)
		}
	})
	writeJSON(w, steps)
}

func (c *Cloud) serveDo(w http.ResponseWriter, r *http.Request) {
	// A web page can post forms and plain text to any port of this machine, but not JSON.
	if r.Header.Get("Content-Type") != "application/json" {
		refuseJSON(w, http.StatusUnsupportedMediaType, errors.New("the Content-Type must be application/json"))
		return
	}
	var order struct {
		Step  *Step  `json:"step"`
		Steps Script `json:"steps"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&order); err != nil {
		refuseJSON(w, http.StatusBadRequest, err)
		return
	}
	if order.Step != nil {
		order.Steps = append(order.Steps, *order.Step)
	}
	targets, err := c.Make(order.Steps)
	if err != nil {
		refuseJSON(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, map[string][]string{"targets": targets})
}

// Make executes the steps without a time or with a past one, and schedules the others. It returns the machines affected by the former.
func (c *Cloud) Make(s Script) (targets []string, err error) {
	targets = []string{}
	c.Do(func(r *region.Region, now time.Time) {
		var steps []step
		if steps, err = s.schedule(c.config.Clock.Market, r); err != nil {
			return
		}
		for _, st := range steps {
			if st.at.After(now) {
				c.script = append(c.script, st)
				continue
			}
			var done []string
			if done, err = st.execute(r, c.config.Clock, now); err != nil {
				break
			}
			targets = append(targets, done...)
		}
		sortSteps(c.script)
	})
	return targets, err
}
