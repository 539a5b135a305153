// Bench compares TierML with other tools, or with the same work written in C, in alternation: A B A B, so that
// disturbances of the machine affect both. `make bench` runs it; results.md has the figures and explains how to build
// the peers.
//
// With the argument growth it compares this build with a former one (`make growth`).
//
// A comparison is a Row; rows that share processes are a Group. It knows nothing about internals: it measures through
// what users and other programs call.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	if run, ok := children[childName()]; ok {
		exit(run(os.Args[2:]))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench(ctx, os.Args[1:])
	stop()
	exit(err)
}

// children are the parts of this program that it runs as processes of their own.
var children = map[string]func(args []string) error{"ps-server": serveRows, "ps-client": askRows, "bare-server": echoVectors, "bare-client": sendVectors, "lda-train": sweepTopics, "machine": runMachine}

func childName() string {
	if len(os.Args) > 1 {
		return os.Args[1]
	}
	return ""
}

func exit(err error) {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, args []string) error {
	flags, groups := flag.NewFlagSet("bench", flag.ContinueOnError), groups
	if len(args) > 0 && args[0] == "growth" {
		args, groups = args[1:], growthGroups
	}
	pairs := flags.Int("pairs", 0, "how often both sides of a row are measured, in turn; 0 = as many as its group has on the page")
	only := flags.String("run", "", "only rows whose \"group: what, against\" matches this regular expression")
	pictures := flags.String("pictures", "", "a folder for pictures of groups' curves, which the page then shows")
	page := flags.String("page", "", "a page whose tables are written anew, e.g. bench/results.md; those of groups of which -run leaves rows out stay")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	env, err := newEnv()
	if err != nil {
		return err
	}
	defer env.close()
	for _, g := range groups {
		results, whole, err := runGroup(ctx, env, g, wanted, *pairs)
		if err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		if len(results) == 0 {
			continue
		}
		fmt.Printf("\n%s\n", g.Title)
		printTable(os.Stdout, results)
		if *page != "" && whole {
			if err := publish(*page, *pictures, g, results); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish writes a group's table, and the picture of its curves, to a page.
func publish(page, pictures string, g Group, results []Result) error {
	table := markdown(results)
	if pictures != "" {
		picture, err := drawCurves(pictures, g.Name, g.Title, results)
		if err != nil {
			return err
		}
		if picture != "" {
			from, err := filepath.Rel(filepath.Dir(page), picture)
			if err != nil {
				return err
			}
			table = fmt.Appendf(table, "\n![%s, by powers on both axes](%s)\n", g.Title, filepath.ToSlash(from))
		}
	}
	return updatePage(page, g.Name, table)
}

// runGroup also reports whether all rows of the group were selected.
func runGroup(ctx context.Context, env *Env, g Group, wanted *regexp.Regexp, pairs int) (results []Result, whole bool, err error) {
	rows, closeGroup, err := g.Open(ctx, env)
	if err != nil {
		return nil, false, err
	}
	defer closeGroup()
	for _, row := range rows {
		if !wanted.MatchString(g.Name + ": " + row.What + ", " + row.Against) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s, %s\n", g.Name, row.What, row.Against)
		result, err := measure(ctx, row, cmp.Or(pairs, g.Pairs))
		if err != nil {
			return nil, false, err
		}
		results = append(results, result)
	}
	return results, len(results) == len(rows), nil
}
