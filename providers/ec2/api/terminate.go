package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// terminateChunk is how many machines one call ends: few enough that one bad id does not delay many.
const terminateChunk = 100

// settlePause is the time between two attempts to end a machine that EC2 does not know yet.
const settlePause = 500 * time.Millisecond

// Terminate ends machines, and deletes the other things that Holdings lists. A failure with some does not prevent it from ending the
// others.
func (c *Cloud) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	names, templates := make([]string, 0, len(ids)), []string(nil)
	for _, id := range ids {
		if strings.HasPrefix(string(id), templatePrefix) {
			templates = append(templates, string(id))
		} else {
			names = append(names, string(id))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var failures []error
	if err := c.deleteTemplates(ctx, templates); err != nil {
		failures = append(failures, err)
	}
	for chunk := range slices.Chunk(names, terminateChunk) {
		if err := c.terminate(ctx, chunk); err != nil {
			failures = append(failures, failure(ctx, fmt.Sprintf("terminating %d instances from %s on", len(chunk), chunk[0]), err))
		}
	}
	return errors.Join(failures...)
}

// terminate ends the machines that EC2 knows, and retries those that it should know soon.
func (c *Cloud) terminate(ctx context.Context, ids []string) error {
	for {
		unknown, err := c.terminateKnown(ctx, ids)
		if err != nil {
			return err
		}
		now := time.Now()
		ids = slices.DeleteFunc(unknown, func(id string) bool { return !c.fresh.has(provisioner.InstanceID(id), now) })
		if len(ids) == 0 {
			return nil
		}
		if err := adapter.Pause(ctx, settlePause); err != nil {
			return err
		}
	}
}

// terminateKnown ends the machines that EC2 knows and returns the others. EC2 refuses a whole call because of one unknown id, which it
// names.
func (c *Cloud) terminateKnown(ctx context.Context, ids []string) (unknown []string, err error) {
	for len(ids) > 0 {
		_, err := c.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		if err == nil {
			return unknown, nil
		}
		if codeOf(err) != codeInstanceNotFound {
			return nil, err
		}
		named := instancesNamed(err)
		bad := func(id string) bool { return slices.Contains(named, id) }
		if !slices.ContainsFunc(ids, bad) { // a response without names: try them one by one
			if len(ids) > 1 {
				return c.terminateOneByOne(ctx, ids, unknown)
			}
			bad = func(string) bool { return true }
		}
		var rest []string
		for _, id := range ids {
			if bad(id) {
				unknown = append(unknown, id)
			} else {
				rest = append(rest, id)
			}
		}
		ids = rest
	}
	return unknown, nil
}

func (c *Cloud) terminateOneByOne(ctx context.Context, ids, unknown []string) ([]string, error) {
	for _, id := range ids {
		more, err := c.terminateKnown(ctx, []string{id})
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	return unknown, nil
}

var instanceID = pattern.Of(`\bi-[0-9a-f]+\b`)

// instancesNamed parses the ids in "The instance IDs 'i-1, i-2' do not exist".
func instancesNamed(err error) []string {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	return instanceID().FindAllString(answer.ErrorMessage(), -1)
}
