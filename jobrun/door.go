package jobrun

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/trust"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/node"
	"github.com/tierml/tierml/tiers/node/link"
)

// machineListener is where machines connect. It admits those that this run's controllers launched: with security: tls by certificate, else by
// a secret in their user data.
type machineListener struct {
	listener  net.Listener
	admission admission
	schema    ps.Schema
	log       *slog.Logger

	// With TLS only.
	authority *trust.Authority
	tokens    *trust.Tokens
	own       *trust.Credential
}

// openDoor takes ownership of the listener if it succeeds: the returned link closes it.
func (r *session) openDoor(ctx context.Context, listener net.Listener) (*machineListener, error) {
	d := &machineListener{listener: listener, admission: r.admission, schema: r.schema, log: r.cfg.Log}
	if r.cfg.Job.Security != config.SecurityTLS {
		return d, nil
	}
	var err error
	if d.authority, err = trust.OpenAuthority(r.cfg.Directory, trust.LifeFor(r.cfg.Job.OrphanAfter), clock.Wall); err != nil {
		return nil, err
	}
	if d.own, err = d.authority.Credential(trust.Controller, r.name); err != nil {
		return nil, err
	}
	if d.tokens, err = trust.OpenTokens(r.cfg.Directory, r.state.Secret, clock.Wall); err != nil {
		return nil, err
	}
	grant, err := r.grant(ctx)
	if err != nil {
		return nil, errors.Join(err, d.tokens.Close())
	}
	d.listener = trust.NewGate(listener, d.authority, d.tokens, d.own, grant, r.cfg.Log)
	return d, nil
}

func (d *machineListener) close() {
	_ = d.listener.Close() // already closed if the link had it
	if d.tokens != nil {
		if err := d.tokens.Close(); err != nil {
			d.log.Warn("closing the list of who has joined", "err", err)
		}
	}
}

func (d *machineListener) link() link.Config {
	c := link.Config{Listener: d.listener, Accept: d.admission.accept, Schema: &d.schema, Log: d.log}
	if d.own != nil {
		c.TLS = true
		c.Accept = func(tiers.Hello) error { return nil } // its certificate proves it
	}
	return c
}

// dataTLS is for the controller's own reading of the model; nil = plaintext.
func (d *machineListener) dataTLS() *tls.Config {
	if d.own == nil {
		return nil
	}
	return d.own.Config(trust.Machine)
}

// complete adds user data and the lease to a launch. It is the same when another controller of the run completes the same launch again,
// except for the address that machines call: see listen.
func (r *session) complete(of provisioner.Request) provisioner.Request {
	of.UserData = r.userData(of)
	of.Generation, of.Expires = generationOf(of.Token), r.leaseFrom(of.Intended)
	return of
}

// userData returns the user data of a launch's machines.
func (r *session) userData(of provisioner.Request) string {
	u := node.UserData{
		Controller: r.state.Controller, Job: r.dataPlane(), Listen: "127.0.0.1:0",
		SplitBytes: r.splitBytes(of),
	}
	u.Token, u.Authority = r.door.token(r.cfg.Clock, of)
	if r.real() != nil {
		u.Listen = "0.0.0.0:0"
	}
	if r.real() == nil || r.billed() { // otherwise a machine of its own counts for itself
		u.VCPU = typeOf(r.types(), of.Pool).VCPU
	}
	if r.billed() { // its host has booted
		return u.Encode()
	}
	return r.booting(u.Encode())
}

// token returns the token that admits the machines of a launch, and the hash of the authority with which they join; empty = there is no
// TLS.
func (d *machineListener) token(at clock.Mapping, of provisioner.Request) (token, authority string) {
	if d.own == nil {
		return d.admission.issue(of.Token), ""
	}
	return d.tokens.Issue(of.Token, at.WallAt(of.Intended), of.Count), d.authority.Hash()
}

// booting returns a machine's boot data: an agent's user data, in the script that starts it if the provider requires a script.
func (r *session) booting(data string) string {
	at := r.real()
	if at == nil || !r.provider.Facts().ScriptInUserData {
		return data
	}
	b := r.provider.Boot(at)
	b.Closed = providers.Closed(r.cfg.Job)
	return boot.Machine(b, data, at.Program.SHA256, r.powerOffAfter())
}
