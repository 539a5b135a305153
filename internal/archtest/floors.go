package archtest

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// floors are the folders of the tree from the ground up (docs/architecture.md, "The tree"). A folder rests on those below it:
// it imports neither higher floors nor its neighbours on the same floor, so that no two folders import each other.
var floors = [][]string{
	{"internal"},
	{"docs", "market", "ps", "python", "terraform", "tuner"},
	{"bidding", "provisioner", "apps", "cost", "fakecloud", "program", "sched"},
	{"tiers"},
	{"elasticity"},
	{"config"},
	{"planner"},
	{"doctor", "sim"},
	{"providers"},
	{"jobrun", "watch"},
	{"jobmanager"},
	{"examples"},
	{"cmd", "lab", "test", "tools"},
}

// upward are the exceptions to the order of floors, with their reasons; no more than three.
var upward = map[[2]string]string{
	{"planner/local", "examples/data"}: "the recording that jobs without prices use is a file of the examples, and only a package in its folder can embed it",
}

const mostUpward = 3

// topFolder returns the folder of the repository in which a package is.
func topFolder(dir string) string {
	top, _, _ := strings.Cut(dir, "/")
	return top
}

// floorOf returns the floor of a folder; -1 = none.
func floorOf(top string) int {
	return slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, top) })
}

// checkFloors compares imports between folders with the order. Tests may import more.
func checkFloors(sources []*source) []Violation {
	var violations []Violation
	used := map[[2]string]bool{}
	for _, s := range sources {
		from := topFolder(s.dir)
		if s.test() || from == "." {
			continue
		}
		if floorOf(from) < 0 {
			violations = append(violations, Violation{File: s.path, Breach: from + " is on no floor", Reason: "give the folder its floor in internal/archtest and in docs/architecture.md"})
			continue
		}
		s.imports(func(path string, pos token.Pos) {
			dir, ours := strings.CutPrefix(path, Module+"/")
			to := topFolder(dir)
			if !ours || to == from || floorOf(to) >= 0 && floorOf(to) < floorOf(from) {
				return
			}
			if edge := [2]string{s.dir, dir}; upward[edge] != "" {
				used[edge] = true
				return
			}
			violations = append(violations, s.at(pos, fmt.Sprintf("%s imports %s", s.dir, dir), fmt.Sprintf(
				"%s is on floor %d, and %s on floor %d: a folder rests on those below it; move the code down, or give it a value or a small interface",
				from, floorOf(from), to, floorOf(to))))
		})
	}
	for _, edge := range slices.SortedFunc(maps.Keys(upward), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if !used[edge] && slices.ContainsFunc(sources, func(s *source) bool { return s.dir == edge[0] }) {
			violations = append(violations, Violation{File: edge[0], Breach: "no longer imports " + edge[1], Reason: "remove the exception from internal/archtest"})
		}
	}
	return violations
}
