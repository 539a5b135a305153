package elasticity

import (
	"time"

	"github.com/tierml/tierml/ps"
)

// reply is what a server answers on the data plane.
type reply struct {
	code  code
	to    ps.ServerID // moved: to whom
	rows  map[ps.Key][]float32
	stamp ps.Stamp // which work they hold
}

type code int

const (
	ok          code = iota
	retry            // not now: another change is in progress, or the rows are not fresh yet
	moved            // the request belongs to another machine
	stale            // your generation has ended
	fenced           // you were given up
	unreachable      // no answer came; the request may have been carried out
	refused          // the request does not fit
)

// ask sends a request to another server and passes its answer to then. Requests and answers get lost, and requests arrive twice, the second
// time late: do must tolerate it.
func (n *node) ask(to ps.ServerID, do func(*node) reply, then func(reply)) {
	w, server := n.w, n.w.nodes[to]
	w.after(n.lag(server), func() {
		if n.dead {
			return
		}
		if !n.reaches(server) {
			n.soon(func() { then(reply{code: unreachable}) })
			return
		}
		answer := do(server)
		if server != n && w.odds(60) {
			w.after(w.delay(300*time.Millisecond), func() {
				if !server.dead && !server.hole {
					do(server)
				}
			})
		}
		w.after(n.lag(server), func() {
			if n.dead {
				return
			}
			if !n.reaches(server) {
				answer = reply{code: unreachable}
			}
			then(answer)
		})
	})
}

// reaches reports whether a message gets through now.
func (n *node) reaches(server *node) bool {
	if server == n {
		return true
	}
	return server != nil && !server.dead && !server.hole && !n.hole && !n.w.odds(100)
}

func (n *node) lag(server *node) time.Duration {
	lag := n.w.delay(8*time.Millisecond) + n.slow
	if server != nil && server != n {
		lag += server.slow
	}
	return lag
}

// soon calls f after a short time, unless the process is dead by then.
func (n *node) soon(f func()) {
	n.w.after(n.w.delay(15*time.Millisecond), func() {
		if !n.dead {
			f()
		}
	})
}
