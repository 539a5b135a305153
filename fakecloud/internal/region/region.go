// Package region is the deciding part of the fake cloud: one region of EC2 or Compute Engine as a state machine over instances, spot
// requests, launch templates and a recorded spot market. It uses EC2's terms; differences on Compute Engine are noted.
//
// It is plain: every method takes the market time `now`, nothing waits, and external actions are returned as Effects for the caller. It
// knows nothing about HTTP, XML, processes, files and wall-clock time; its durations are market time.
package region

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Region is the state machine. It is not safe for concurrent use.
type Region struct {
	*Catalog
	*Account
	names namer
	picks *rand.Rand // for random choices

	now       time.Time
	instances map[string]*Instance
	order     []*Instance // in order of launch
	tokens    map[string]tokenUse
	waiting   []*Waiting // spot requests, in order of time
	fleets    []*Fleet   // in order of time
	retryAt   time.Time  // when waiting requests and fleets are retried; zero = nothing is waiting
	faults    faults
	effects   []Effect
}

// tokenUse is the request of a client token.
type tokenUse struct {
	fingerprint string
	reservation string
	instances   []string
	fleet       FleetResult
}

// New returns a region without machines.
func New(c Config) (*Region, error) {
	sold, err := newCatalog(c)
	if err != nil {
		return nil, err
	}
	names := namer{rand.New(rand.NewPCG(c.Seed, 2*c.Session))}
	r := &Region{
		Catalog:   sold,
		names:     names,
		Account:   &Account{names: names},
		picks:     rand.New(rand.NewPCG(c.Seed, 2*c.Session+1)),
		instances: make(map[string]*Instance),
		tokens:    make(map[string]tokenUse),
	}
	if sold.config.Provider == EC2 {
		r.resources = defaultResources(sold)
	}
	return r, nil
}

// namer creates ids in EC2's formats.
type namer struct{ *rand.Rand }

// next returns a prefix and 17 hexadecimal digits.
func (n namer) next(prefix string) string {
	return fmt.Sprintf("%s-%016x%x", prefix, n.Uint64(), n.Uint64()>>60)
}

func (n namer) fleet(prefix string) string {
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", prefix, n.Uint32(), n.Uint32()>>16, n.Uint32()>>16, n.Uint32()>>16, n.Uint64()>>16)
}

// request is shorter, like the ids of spot requests.
func (n namer) request() string {
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	id := []byte("sir-00000000")
	for at := len("sir-"); at < len(id); at++ {
		id[at] = digits[n.IntN(len(digits))]
	}
	return string(id)
}

// Effects returns the external actions since the last call, in order.
func (r *Region) Effects() []Effect {
	effects := r.effects
	r.effects = nil
	return effects
}

func (r *Region) emit(e Effect) { r.effects = append(r.effects, e) }

// Effect is an action for the caller: one of the structs below.
type Effect interface{ effect() }

type (
	// Launched: the machine is sold; record it.
	Launched struct{ Instance Instance }
	// Boot: start the machine's process.
	Boot struct{ Instance Instance }
	// Ended: the machine is no longer billed; record it.
	Ended struct{ Instance Instance }
	// Halt: end the machine's process, at once if Force, and call Gone when it has ended.
	Halt struct {
		ID    string
		Force bool
	}
)

func (Launched) effect() {}
func (Boot) effect()     {}
func (Ended) effect()    {}
func (Halt) effect()     {}

// Error is a refusal with EC2's code.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf returns an Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
