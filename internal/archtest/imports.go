package archtest

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// within reports whether a package folder is in one of these folders.
func within(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
}

// arrow limits which of our packages some packages may import.
type arrow struct {
	from    func(dir string) bool
	allowed func(dir string) bool
	reason  string
}

func exactly(dirs ...string) func(string) bool {
	return func(dir string) bool { return slices.Contains(dirs, dir) }
}

func below(dirs ...string) func(string) bool {
	return func(dir string) bool { return within(dir, dirs...) }
}

// tooling may be used everywhere: it knows nothing about the domain.
var tooling = below("internal/atomicfile", "internal/clock", "internal/journal", "internal/cells", "internal/stopping", "internal/vector", "internal/decompress", "internal/grid", "internal/spelling", "internal/sameuser", "internal/loglimit", "internal/kin", "internal/parallel", "internal/pattern")

func either(rules ...func(string) bool) func(string) bool {
	return func(dir string) bool {
		return slices.ContainsFunc(rules, func(r func(string) bool) bool { return r(dir) })
	}
}

// arrows are the two chains that meet in elasticity (docs/architecture.md, "Who imports whom"). A package may always
// import its own sub-folders' parent and packages in its own folder.
var arrows = []arrow{
	{exactly("market", "ps", "tuner", "elasticity/tempo", "internal/clock", "internal/journal", "internal/cells", "internal/stopping", "internal/vector"),
		exactly("internal/cells", "internal/vector"),
		"it is a root of the tree: everything may rest on it because it rests on nothing of ours"},
	{exactly("bidding"), either(exactly("market", "market/hazard"), tooling),
		"bidding decides from what market knows, and nothing else; it returns a plan and never buys"},
	{exactly("provisioner"), either(exactly("market"), tooling),
		"the cloud contract is about what is for sale; it buys and never decides"},
	{exactly("tiers"), either(exactly("ps"), tooling),
		"tiers knows parameter servers, not markets: the two chains meet in elasticity only"},
	{exactly("tiers/agent"), either(exactly("ps", "tiers"), tooling),
		"an agent decides what a node does, and others carry it out: no network, application or simulator"},
	{exactly("apps"), either(exactly("ps"), below("apps"), tooling),
		"an application knows rows and splits, not machines, networks, tiers or time"},
	{exactly("elasticity/step"), either(exactly("ps", "tiers"), tooling),
		"step is what fleet and training share; it knows neither, and decides nothing"},
	{exactly("elasticity/fleet"), either(exactly("market", "bidding", "provisioner", "elasticity/step", "elasticity/tempo"), tooling),
		"the fleet buys machines for a demand; it must not know layouts, clocks and cuts, which are training's"},
	{exactly("elasticity/tuning"), either(exactly("tuner"), tooling),
		"the brain of a job decides over plain numbers; training carries its settings out"},
	{exactly("elasticity/training"), either(exactly("ps", "tiers", "elasticity/step", "elasticity/tempo", "elasticity/tuning"), tooling),
		"training uses the machines that there are; it must not know pools, prices and providers, which are the fleet's"},
	{exactly("elasticity"), either(exactly("market", "bidding", "provisioner", "ps", "tiers", "elasticity/step", "elasticity/fleet", "elasticity/training", "elasticity/tempo", "elasticity/tuning"), tooling),
		"elasticity decides over the pure packages; it must not touch the world"},
	{exactly("elasticity/restart"), either(exactly("market", "bidding", "provisioner", "ps", "tiers", "elasticity", "elasticity/step", "elasticity/fleet", "elasticity/training", "elasticity/tempo"), tooling),
		"another training on the same fleet decides over the pure packages, too"},
	{exactly("elasticity/programs"), either(exactly("market", "bidding", "provisioner", "ps", "tiers", "elasticity", "elasticity/step", "elasticity/fleet", "elasticity/tempo", "elasticity/restart", "sched/trials", "tuner"), tooling),
		"programs are decided about over values, as training is"},
	{exactly("elasticity/hosts"), either(exactly("market", "bidding", "provisioner", "elasticity", "elasticity/step", "elasticity/fleet", "elasticity/tempo", "tiers"), tooling),
		"which slots jobs have is decided over values, and without knowing what they train"},
	{below("sched/trials"), tooling, "sweeps are decided about over values only"},
	{exactly("sched/grants"), either(exactly("sched"), tooling), "grants are decided about over values only"},
	{exactly("sched"), either(exactly("market", "bidding", "elasticity"), tooling),
		"sched decides over values only"},
	{exactly("cost"), either(exactly("market"), tooling),
		"costs are made from the journal and the rule books, the same for every world"},
	{below("market"), either(below("market"), tooling), "market's sources know prices, nothing else of ours"},
	{below("ps"), either(below("ps"), tooling), "parameter servers know nothing of markets, machines or applications"},
	{below("provisioner"), either(below("provisioner"), exactly("market"), tooling),
		"the contract and its exam know no provider, and nothing of training"},
	{below("providers/ec2/api", "providers/ec2/notice", "providers/gce/api", "providers/gce/notice", "providers/kube/api"), either(below("provisioner"), exactly("market"), either(exactly("internal/cloudname", "internal/blob", "internal/location", "internal/marked"), tooling)),
		"adapters translate a provider's words, and know nothing of training"},
	{below("fakecloud"), either(below("fakecloud", "market"), tooling),
		"the fake cloud must not share a misunderstanding with our adapter, so it knows neither it nor the trainers"},
	{exactly("sim"), either(exactly("market", "market/hazard", "bidding", "provisioner", "ps", "tiers", "tiers/agent", "elasticity", "elasticity/restart", "elasticity/programs", "elasticity/tempo", "sched", "sched/trials", "cost", "tuner"), tooling),
		"the simulator runs the deciding packages and never a shell"},
}

// checkArrows checks a file's imports of our packages. Tests may import more: they combine parts.
func checkArrows(s *source) []Violation {
	var violations []Violation
	s.imports(func(path string, pos token.Pos) {
		dir, ours := strings.CutPrefix(path, Module+"/")
		if !ours {
			return
		}
		if within(dir, "cmd") && !within(s.dir, "cmd") {
			violations = append(violations, s.at(pos, "imports "+dir, "nothing imports a command; move the code into a package"))
		}
		if within(dir, "sim") && !s.test() && !within(s.dir, "sim", "cmd", "test", "lab", "jobrun/prepare") {
			violations = append(violations, s.at(pos, "imports "+dir,
				"what runs must not rest on a simulation: only plans (jobrun/prepare), commands and tests ask it; take a comparison as a value or from a function"))
		}
		if reason := tooLow(s.dir, dir); reason != "" && !s.test() {
			violations = append(violations, s.at(pos, "imports "+dir, reason))
		}
		for _, a := range arrows {
			if !s.test() && a.from(s.dir) && dir != s.dir && !a.allowed(dir) {
				violations = append(violations, s.at(pos, fmt.Sprintf("%s imports %s", s.dir, dir), a.reason))
				break
			}
		}
	})
	return violations
}

// tooLow returns why a package below elasticity must not know it.
func tooLow(from, to string) string {
	if within(to, "elasticity") && within(from, "market", "bidding", "provisioner", "ps", "tiers", "apps", "tuner", "fakecloud") {
		return "nobody below elasticity knows elasticity; give it what it needs as a value or a small interface"
	}
	return ""
}

// foreignRule limits the packages that may import another project's module.
type foreignRule struct {
	prefix string
	in     func(dir string) bool
	reason string
}

var foreignRules = []foreignRule{
	{"github.com/aws/aws-sdk-go-v2/service/ec2", below("providers/ec2/api"),
		"it takes minutes and gigabytes to compile: one package imports it, and all others ask that one"},
	{"github.com/aws/", below("providers/ec2/api", "providers/ec2/notice", "internal/blob"),
		"SDKs appear in the adapters only, and in the one package of stores, so that everything else runs on any cloud"},
	{"github.com/aws/smithy-go", below("providers/ec2/api", "providers/ec2/notice"),
		"SDKs appear in the adapters only, so that everything else runs on any cloud"},
	{"cloud.google.com/", below("providers/gce/api", "providers/gce/notice"),
		"SDKs appear in the adapters only, so that everything else runs on any cloud"},
	{"k8s.io/", below("providers/kube/api", "fakecloud/kubelet", "test/kube"),
		"Kubernetes' client appears in the adapter and the fake node only"},
	{"github.com/spf13/cobra", below("cmd"), "commands are thin: packages must not know that they are called from one"},
	{"github.com/spf13/viper", below("cmd"), "settings reach packages as arguments, not through a store"},
}

// single are modules that only one package may import.
var single = []string{"github.com/aws/aws-sdk-go-v2/service/ec2", "cloud.google.com/go/compute/apiv1"}

func checkSingleImporters(sources []*source) []Violation {
	var violations []Violation
	importers := map[string]map[string]*source{}
	for _, s := range sources {
		s.imports(func(path string, pos token.Pos) {
			for _, rule := range foreignRules {
				if within(path, strings.TrimSuffix(rule.prefix, "/")) && !rule.in(s.dir) {
					violations = append(violations, s.at(pos, "imports "+path, rule.reason))
					return
				}
			}
			for _, module := range single {
				if within(path, module) && !s.test() {
					if importers[module] == nil {
						importers[module] = map[string]*source{}
					}
					importers[module][s.dir] = s
				}
			}
		})
	}
	for _, module := range single {
		dirs := slices.Sorted(maps.Keys(importers[module]))
		for _, dir := range dirs[min(1, len(dirs)):] {
			violations = append(violations, Violation{File: importers[module][dir].path,
				Breach: fmt.Sprintf("imports %s, as %s does already", module, dirs[0]),
				Reason: "it takes minutes and gigabytes to compile: one package imports it, and all others ask that one"})
		}
	}
	return violations
}
