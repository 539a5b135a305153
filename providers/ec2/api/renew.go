package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/provisioner"
)

// renewChunk is how many machines one call tags. EC2 allows a thousand.
const renewChunk = 500

// Renew extends machines' leases, and records their current owner: the tags tierml:expires and tierml:generation.
func (c *Cloud) Renew(ctx context.Context, generation string, until time.Time, ids ...provisioner.InstanceID) error {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, string(id))
	}
	slices.Sort(names)
	tags := []types.Tag{tag(tagExpires, expiry(until))}
	if generation != "" {
		tags = append(tags, tag(tagGeneration, generation))
	}
	for chunk := range slices.Chunk(slices.Compact(names), renewChunk) {
		if err := c.retag(ctx, chunk, tags); err != nil {
			return failure(ctx, fmt.Sprintf("renewing the leases of %d instances from %s on", len(chunk), chunk[0]), err)
		}
	}
	return nil
}

// retag skips those that EC2 does not know, or not yet.
func (c *Cloud) retag(ctx context.Context, ids []string, tags []types.Tag) error {
	for len(ids) > 0 {
		_, err := c.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tags})
		if err == nil || codeOf(err) != codeInstanceNotFound {
			return err
		}
		named := instancesNamed(err)
		left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(named, id) })
		if len(left) == len(ids) {
			return err
		}
		ids = left
	}
	return nil
}
