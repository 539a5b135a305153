package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
)

// ReadHosts views the run of shared hosts in a directory.
func ReadHosts(ctx context.Context, dir string) (shared.View, error) {
	r, err := readOnce(ctx, dir)
	if err != nil {
		return shared.View{}, err
	}
	v, err := r.view(time.Now(), nil)
	if err == nil && v == nil {
		err = fmt.Errorf("%s is not a run of shared hosts: name one that `tierml hosts` has made", filepath.Base(dir))
	}
	if err != nil {
		return shared.View{}, err
	}
	return *v, nil
}

// view returns nil unless the run is a run of shared hosts.
func (r *run) view(now time.Time, granted map[string]string) (*shared.View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == nil || r.status.Start.App != shared.App {
		return nil, nil
	}
	book, err := r.book.Book()
	if err != nil || book == nil {
		return nil, err
	}
	v, err := shared.New(r.name(), r.status, book, r.asOf(now), granted)
	return &v, err
}

// views returns the views of the present shared hosts.
func (b *Board) views(granted map[string]string) (all []shared.View, err error) {
	for _, r := range b.sharing() {
		v, err := r.view(b.now(), granted)
		if err != nil {
			return nil, fmt.Errorf("the shared hosts %s: %w", r.name(), err)
		}
		if v != nil {
			all = append(all, *v)
		}
	}
	return all, nil
}

// sharing returns the running runs of shared hosts.
func (b *Board) sharing() []*run {
	return slices.DeleteFunc(b.all(), func(r *run) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.going || r.status == nil || r.status.Start.App != shared.App || r.status.Outcome != ""
	})
}

// Hosts returns the shared hosts as a client may see them: hidden jobs are counted, not named.
func (b *Board) Hosts(request *http.Request) ([]shared.View, error) {
	var granted map[string]string
	if b.manager != nil {
		granted = b.manager(request).Granted
	}
	all, err := b.views(granted)
	sees := func(run string) bool {
		s := Summary{Run: run}
		if r := b.find(run); r != nil {
			s = r.summary(b.now())
		}
		sees, _ := b.may(request, s)
		return sees
	}
	out := []shared.View{}
	for _, v := range all {
		out = append(out, v.For(sees))
	}
	return out, err
}

// Place adds to rows the shared hosts on which running jobs have slots, and what they pay: a job's own journal counts the hours that its
// slots have begun as if nobody shared them.
func Place(rows []Summary, views ...shared.View) {
	for _, v := range views {
		for _, j := range v.Jobs {
			i := slices.IndexFunc(rows, func(s Summary) bool { return s.Run == j.Run() && s.Active() })
			if i < 0 {
				continue
			}
			rows[i].On = append(rows[i].On, j.Hosts...)
			if at := slices.IndexFunc(v.Bill, func(p shared.Pay) bool { return p.Job == j.Job }); at >= 0 {
				rows[i].pays(v.Bill[at].USD, j.PerHour)
			}
		}
	}
}

// share replaces the hours that the slots of a running job have begun by what it pays for shared hosts, as Place does in the list.
func (b *Board) share(r *run, report *cost.Report, live *page.Live) error {
	if !live.Running || !r.billed() {
		return nil
	}
	views, err := b.views(nil)
	if err != nil {
		return err
	}
	t := &report.Totals
	rows := []Summary{{Run: r.name(), State: report.Run.Outcome, Spent: t.Total.String(), Saved: t.Saving.String()}}
	Place(rows, views...)
	if rows[0].PerHour == "" {
		return nil // the hosts do not know it yet
	}
	t.Total, t.Saving, live.PerHour, live.Share = dollars(rows[0].Spent), dollars(rows[0].Saved), dollars(rows[0].PerHour), true
	if t.Equivalent > 0 {
		t.SavingPercent = 100 * float64(t.Saving) / float64(t.Equivalent)
	}
	return nil
}

// billed reports whether the run's machines are slots of shared hosts.
func (r *run) billed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status != nil && r.status.Start.Billed
}

// pays replaces the cost of a run, and adjusts its saving.
func (s *Summary) pays(usd, perHour string) {
	now, err1 := market.ParseUSD(usd)
	before, err2 := market.ParseUSD(s.Spent)
	if err1 != nil || err2 != nil {
		return // not known yet
	}
	s.Spent, s.PerHour = usd, perHour
	if saved, err := market.ParseUSD(s.Saved); err == nil {
		s.Saved = (saved + before - now).String()
	}
}

func (b *Board) hostsPage(w http.ResponseWriter, r *http.Request) {
	is, err := b.hosted.get(access.ClientOf(r.Context()).ID(), false, func() (*content, error) {
		views, err := b.Hosts(r)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		err = pages().ExecuteTemplate(&text, "hosts.html", struct {
			frame
			Views []shared.View
		}{newFrame(true), views})
		return pack("text/html; charset=utf-8", text.Bytes()), err
	})
	if err != nil {
		trouble(w, http.StatusServiceUnavailable, "Not now", err.Error()+".")
		return
	}
	is.send(w, r)
}

func (b *Board) hostsJSON(w http.ResponseWriter, r *http.Request) {
	views, err := b.Hosts(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, r, views)
}
