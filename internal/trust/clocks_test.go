package trust

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
)

// meet makes two ends of the data plane shake hands.
func meet(a, b *Credential) error {
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	accepted := make(chan error, 1)
	go func() { accepted <- tls.Server(right, b.Config(Machine, Controller)).Handshake() }()
	client := tls.Client(left, a.Config(Machine, Controller))
	err := client.Handshake()
	if err == nil { // the server's verdict follows
		go func() { _, _ = client.Read(make([]byte, 1)) }()
	}
	_ = left.SetDeadline(time.Now().Add(time.Minute))
	return errors.Join(err, <-accepted)
}

// Hosts whose clocks are an hour off, in either direction, join, talk and renew; even when a clock is set in between.
func TestClocksAnHourOff(t *testing.T) {
	hours := []time.Duration{-time.Hour, 0, time.Hour}
	for _, controller := range hours {
		for _, machine := range hours {
			for _, later := range hours { // the machine's clock, once it has joined
				r := newRun(t)
				r.clock.wind(controller)
				clocks := []*watch{{}, {}}
				clocks[0].wind(machine)
				clocks[1].wind(-machine)
				var all []*Credential
				token := r.tokens.issue(2)
				for i, clock := range clocks {
					j := r.joining([]string{"i-1", "i-2"}[i], token)
					j.Now = clock.now
					c, err := j.Join(t.Context())
					if err != nil {
						t.Fatalf("the controller is off by %v, the machine by %v: %v", controller, time.Duration(clock.ahead.Load()), err)
					}
					all = append(all, c)
				}
				if _, renewAt, _ := all[0].current(); renewAt.Sub(clocks[0].now()).Round(time.Minute) != LeastLife/2 {
					t.Errorf("the controller is off by %v, the machine by %v: it renews in %v", controller, machine, renewAt.Sub(clocks[0].now()))
				}
				clocks[0].wind(later - machine)
				for range 3 { // for longer than a certificate is valid
					if err := errors.Join(r.echo(control(all[0])), meet(all[0], all[1]), meet(all[1], all[0])); err != nil {
						t.Fatalf("the controller is off by %v, the machine by %v, later by %v: %v", controller, machine, later, err)
					}
					for _, clock := range []*watch{r.clock, clocks[0], clocks[1]} {
						clock.wind(LeastLife)
					}
					for i, c := range all {
						j := r.joining([]string{"i-1", "i-2"}[i], "not to be shown")
						j.Now = clocks[i].now
						if err := j.Renew(t.Context(), c); err != nil {
							t.Fatalf("the controller is off by %v, the machine by %v, later by %v: renewing: %v", controller, machine, later, err)
						}
					}
				}
			}
		}
	}
}

// A controller that is restarted after its clock was set knows its predecessor's machines and tokens.
func TestClockSetBetweenControllers(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		r := newRun(t)
		clock := watch{}
		token := r.tokens.issue(2)
		j := r.joining("i-1", token)
		j.Now = clock.now
		c, err := j.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.close()
		r.clock.wind(by)
		r.open()
		if err := r.echo(control(c)); err != nil {
			t.Errorf("set by %v: %v", by, err)
		}
		clock.wind(TokenLife / 2)
		r.clock.wind(TokenLife / 2)
		if j = r.joining("i-2", token); by > 0 {
			j.Now = clock.now
		}
		if _, err := j.Join(t.Context()); err != nil {
			t.Errorf("set by %v: a token of before: %v", by, err)
		}
	}
}
