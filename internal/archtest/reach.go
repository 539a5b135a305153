package archtest

import (
	"go/token"
	"strings"
)

// distance keeps a package from reaching another by any chain of imports.
type distance struct {
	from, to, reason string
}

var distances = []distance{
	{"config", "internal/blob", "reading a job file needs no client of an object store, and importers of config would get them all; " +
		"move what config needs to a package without them"},
}

// checkReach follows imports from package to package. A breach is reported at the last import of the shortest chain, and names the chain.
func checkReach(sources []*source) []Violation {
	var violations []Violation
	for _, d := range distances {
		chains := map[string]string{d.from: d.from} // how packages are reached
		for queue := []string{d.from}; len(queue) > 0; queue = queue[1:] {
			importsOf(sources, queue[0], func(s *source, to string, at token.Pos) {
				if chains[to] != "" {
					return
				}
				chains[to] = chains[queue[0]] + " -> " + to
				queue = append(queue, to)
				if within(to, d.to) {
					violations = append(violations, s.at(at, chains[to], d.reason))
				}
			})
		}
	}
	return violations
}

// importsOf calls f for each of our packages that a package imports, except in tests.
func importsOf(sources []*source, dir string, f func(s *source, to string, at token.Pos)) {
	for _, s := range sources {
		if s.dir != dir || s.test() {
			continue
		}
		s.imports(func(path string, at token.Pos) {
			if to, ours := strings.CutPrefix(path, Module+"/"); ours {
				f(s, to, at)
			}
		})
	}
}
