package wrap

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tierml/tierml/provisioner"
)

// Faulty fails calls by a plan, for tests and rehearsals. Calls are counted per method in the order in which
// they begin.
func Faulty(cloud provisioner.Cloud, p Plan) provisioner.Cloud {
	return &faulty{Cloud: cloud, plan: p, calls: map[Op]int{}}
}

type faulty struct {
	provisioner.Cloud
	plan Plan

	mu    sync.Mutex
	calls map[Op]int
}

func (f *faulty) Launch(ctx context.Context, r provisioner.Request) (instances []provisioner.Instance, err error) {
	err = f.do(ctx, OpLaunch, func() error {
		instances, err = f.Cloud.Launch(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return instances, nil
}

func (f *faulty) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	return f.do(ctx, OpTerminate, func() error { return f.Cloud.Terminate(ctx, ids...) })
}

func (f *faulty) List(ctx context.Context) (instances []provisioner.Instance, err error) {
	err = f.do(ctx, OpList, func() error {
		instances, err = f.Cloud.List(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return instances, nil
}

func (f *faulty) Notify(ctx context.Context, told func(provisioner.Notice)) error {
	err := f.do(ctx, OpNotify, func() error { return f.Cloud.Notify(ctx, told) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *faulty) do(ctx context.Context, op Op, call func() error) error {
	number, fault := f.next(op)
	doing := fmt.Sprintf("planned fault %s", Step{Op: op, From: number, To: number, Fault: fault})
	switch fault {
	case "":
		return call()
	case After:
		if err := call(); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w: the answer was lost", doing, provisioner.ErrTemporary)
	case Hang:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	answer := answers[fault]
	if answer == nil {
		answer = errors.New("unknown fault")
	}
	return fmt.Errorf("%s: %w", doing, answer)
}

func (f *faulty) next(op Op) (number int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	return f.calls[op], f.plan.at(op, f.calls[op])
}
