package wrap

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Call is one finished call of a Cloud.
type Call struct {
	Op       Op
	Started  time.Time     // wall-clock
	Duration time.Duration // wall-clock
	Machines int           // asked for by a Launch, given by a List, named by a Terminate, told of by a Notify
	Err      error
}

// Observe tells of each call when it has ended: for metrics and logs. The function is called by whoever made
// the call, so it may be called concurrently.
func Observe(cloud provisioner.Cloud, clock Clock, told func(Call)) provisioner.Cloud {
	return &observe{Cloud: cloud, clock: clock, told: told}
}

type observe struct {
	provisioner.Cloud
	clock Clock
	told  func(Call)
}

func (o *observe) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	call := o.begin(OpLaunch, r.Count)
	instances, err := o.Cloud.Launch(ctx, r)
	o.end(call, err)
	return instances, err
}

func (o *observe) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	call := o.begin(OpTerminate, len(ids))
	err := o.Cloud.Terminate(ctx, ids...)
	o.end(call, err)
	return err
}

func (o *observe) List(ctx context.Context) ([]provisioner.Instance, error) {
	call := o.begin(OpList, 0)
	instances, err := o.Cloud.List(ctx)
	call.Machines = len(instances)
	o.end(call, err)
	return instances, err
}

func (o *observe) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	call := o.begin(OpNotify, 0)
	err := o.Cloud.Notify(ctx, func(n provisioner.Notice) {
		call.Machines++
		f(n)
	})
	o.end(call, err)
	return err
}

func (o *observe) begin(op Op, machines int) Call {
	return Call{Op: op, Started: o.clock.Now(), Machines: machines}
}

func (o *observe) end(call Call, err error) {
	call.Duration, call.Err = o.clock.Now().Sub(call.Started), err
	o.told(call)
}
