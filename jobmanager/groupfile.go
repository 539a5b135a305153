package jobmanager

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/market"
)

// Group is the entry of a group in a file of groups.
type Group struct {
	Tokens map[access.Right][]access.Sum
	Quota  Quota
	Budget market.USD // 0 = none
	Fence  Fence      // nil = none
}

// ReadGroups reads a file of groups, by name. Group access.All has only tokens.
func ReadGroups(path string) (map[string]Group, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the groups: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("%s is not valid YAML: %w", path, err)
	}
	groups := map[string]Group{}
	if len(root.Content) == 1 {
		err = fieldsOf(root.Content[0], "a file of groups", func(name string, n *yaml.Node) (err error) {
			groups[name], err = readGroup(name, n)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return groups, nil
}

func readGroup(name string, n *yaml.Node) (g Group, err error) {
	g.Tokens = map[access.Right][]access.Sum{}
	rights := map[string]access.Right{"watch": access.Watch, "submit": access.Submit, "administer": access.Administer}
	err = fieldsOf(n, "group "+name, func(field string, n *yaml.Node) (err error) {
		right, known := rights[field]
		switch {
		case known:
			g.Tokens[right], err = readSums(n, field)
			return err
		case name == access.All && (field == "quota" || field == "budget"):
			return faultAt(n, "%s of all groups: that of all jobs is --max-running, --budget and budget-per-hour", field)
		case name == access.All && field == "fence":
			return faultAt(n, "fence of all groups: write one for each group")
		case field == "budget":
			g.Budget, err = market.ParseUSD(strings.TrimPrefix(n.Value, "$"))
			if err != nil || g.Budget <= 0 {
				return faultAt(n, "budget: %q is not an amount of dollars; write 200", n.Value)
			}
			return nil
		case field == "quota":
			return readQuota(n, &g.Quota)
		case field == "fence":
			g.Fence, err = readFence(n)
			return err
		}
		return unknownField(n, field, "watch", "submit", "administer", "quota", "budget", "fence")
	})
	return g, err
}

func readQuota(n *yaml.Node, q *Quota) error {
	return fieldsOf(n, "quota", func(field string, n *yaml.Node) (err error) {
		if field == "per_hour" {
			if q.PerHour, err = market.ParseUSD(strings.TrimPrefix(n.Value, "$")); err != nil || q.PerHour <= 0 {
				return faultAt(n, "quota.per_hour: %q is not an amount of dollars; write 20", n.Value)
			}
			return nil
		}
		to, known := map[string]*int{"jobs": &q.Jobs, "machines": &q.Machines}[field]
		if !known {
			return unknownField(n, field, "jobs", "machines", "per_hour")
		}
		most, err := strconv.Atoi(n.Value)
		if err != nil || most < 1 {
			return faultAt(n, "quota.%s: %q is not a number from 1 on; leave it out for no bound", field, n.Value)
		}
		*to = most
		return nil
	})
}

// readSums reads a list of sums, or one.
func readSums(n *yaml.Node, field string) (sums []access.Sum, err error) {
	if n.Kind == yaml.ScalarNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	if n.Kind != yaml.SequenceNode {
		return nil, faultAt(n, "%s: write a list of tokens' SHA-256 sums", field)
	}
	for _, item := range n.Content {
		sum, err := access.ParseSum(item.Value)
		if err != nil {
			return nil, faultAt(item, "%s: %q: %w", field, item.Value, err)
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

// fieldsOf visits the entries of a mapping, each name once.
func fieldsOf(n *yaml.Node, what string, visit func(name string, n *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return faultAt(n, "%s is not a mapping: docs/server.md has an example", what)
	}
	var before []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if name == "" || slices.Contains(before, name) {
			return faultAt(n.Content[i], "%s: the name %q is empty, or there twice", what, name)
		}
		before = append(before, name)
		if err := visit(name, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func unknownField(n *yaml.Node, field string, known ...string) error {
	hint := "there are " + strings.Join(known, ", ")
	if meant := spelling.Nearest(field, known); meant != "" {
		hint = "write " + meant
	}
	return faultAt(n, "there is no %q: %s", field, hint)
}

// faultAt prefixes an error with its line.
func faultAt(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%d: %w", n.Line, fmt.Errorf(format, args...))
}
