package access

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Right is what a token permits with the jobs of a group. Each right includes those before it.
type Right int

// The rights. None is the right to a group that a token does not mention.
const (
	None       Right = iota
	Watch            // to see jobs, with their logs, files and models
	Submit           // to submit jobs, and to change those submitted with the same token
	Administer       // to change all jobs: stop, resume, scale, pause, drill
)

func (r Right) String() string { return [...]string{"none", "watch", "submit", "administer"}[r] }

// All is the group of all jobs: a right to it is a right to every group, and to jobs without one.
const All = "*"

// Client is the client of a request, by its token. The zero Client has no rights.
type Client struct {
	id     string
	rights map[string]Right
}

// ID identifies the client's token without revealing it: its SHA-256.
func (c Client) ID() string { return c.id }

// Right returns the client's right to the jobs of a group; group "" has those that name none.
func (c Client) Right(group string) Right { return max(c.rights[group], c.rights[All]) }

// Highest returns the client's highest right to any group.
func (c Client) Highest() (highest Right) {
	for _, right := range c.rights { // any order
		highest = max(highest, right)
	}
	return highest
}

// Groups returns those to which the client has at least a right, in order.
func (c Client) Groups(least Right) (groups []string) {
	for group, right := range c.rights {
		if right >= least {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// String returns the client's rights in words, such as "submit of vision, watch of all groups".
func (c Client) String() string {
	var all []string
	for _, group := range slices.SortedFunc(maps.Keys(c.rights), func(a, b string) int { return cmp.Or(cmp.Compare(c.rights[b], c.rights[a]), cmp.Compare(a, b)) }) {
		name := group
		if group == All {
			name = "all groups"
		}
		all = append(all, fmt.Sprintf("%s of %s", c.rights[group], name))
	}
	return cmp.Or(strings.Join(all, ", "), "no right")
}

type clientKey struct{}

// ClientOf returns the client of an admitted request; without a gate it is one without rights.
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// holder is a token that opens a gate, by its sum.
type holder struct {
	sum Sum
	Client
}

// Grant gives the tokens with these SHA-256 a right to the jobs of a group, in addition to existing rights. Call it before Handler's first
// request.
func (g *Gate) Grant(right Right, group string, sums ...Sum) {
	for _, sum := range sums {
		i := slices.IndexFunc(g.holders, func(h holder) bool { return h.sum == sum })
		if i < 0 {
			i = len(g.holders)
			g.holders = append(g.holders, holder{sum, Client{hex.EncodeToString(sum[:]), map[string]Right{}}})
		}
		rights := g.holders[i].rights
		rights[group] = max(rights[group], right)
	}
}

// holding returns the holder for which a comparison holds. All are compared: the time reveals nothing.
func (g *Gate) holding(is func(h holder) bool) (found holder, ok bool) {
	for _, h := range g.holders {
		if is(h) {
			found, ok = h, true
		}
	}
	return found, ok
}
