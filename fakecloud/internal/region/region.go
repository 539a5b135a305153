// Package region is the deciding part of the fake cloud: one region of EC2 or Compute Engine as a state machine over
// instances, spot requests, launch templates and a recorded spot market. Its words are EC2's; what differs on Compute
// Engine is said where it does.
//
// It is plain: every method takes the market time `now`, nothing waits, and what the world has to do follows
// as Effects that the caller carries out. It knows nothing about HTTP, XML, processes, files and wall-clock time;
// the lengths that it is given are market lengths.
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
	picks *rand.Rand // of the random choices

	now       time.Time
	instances map[string]*Instance
	order     []*Instance // in order of launch
	tokens    map[string]tokenUse
	waiting   []*Waiting // spot requests, in order of time
	fleets    []*Fleet   // in order of time
	retryAt   time.Time  // when waiting requests and fleets are tried again; zero = nothing is short
	faults    faults
	effects   []Effect
}

// tokenUse is what a client token stood for.
type tokenUse struct {
	fingerprint string
	reservation string
	instances   []string
	fleet       FleetResult
}

// New makes a region where nothing runs.
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

// namer makes ids in the forms of EC2's.
type namer struct{ *rand.Rand }

// next returns a prefix and 17 hexadecimal digits.
func (n namer) next(prefix string) string {
	return fmt.Sprintf("%s-%016x%x", prefix, n.Uint64(), n.Uint64()>>60)
}

func (n namer) fleet() string {
	return fmt.Sprintf("fleet-%08x-%04x-%04x-%04x-%012x", n.Uint32(), n.Uint32()>>16, n.Uint32()>>16, n.Uint32()>>16, n.Uint64()>>16)
}

// request is shorter, as those of spot requests are.
func (n namer) request() string {
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	id := []byte("sir-00000000")
	for at := len("sir-"); at < len(id); at++ {
		id[at] = digits[n.IntN(len(digits))]
	}
	return string(id)
}

// Effects hands over what the world has to do since the last call, in order.
func (r *Region) Effects() []Effect {
	effects := r.effects
	r.effects = nil
	return effects
}

func (r *Region) emit(e Effect) { r.effects = append(r.effects, e) }

// Effect is something that the caller has to do: one of the structs below.
type Effect interface{ effect() }

type (
	// Launched: the machine is sold; write it down.
	Launched struct{ Instance Instance }
	// Boot: start the machine's process.
	Boot struct{ Instance Instance }
	// Ended: the machine is off the bill; write it down.
	Ended struct{ Instance Instance }
	// Halt: end the machine's process, at once when Force, and call Gone when it has ended.
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

// Errorf makes an Error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
