package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// The lists of docs/job.md between <!-- fields of X --> and <!-- end --> are made from the structs of this package: the texts and defaults
// from the fields' comments, the kinds of values from their types, and the examples from messages. TestFieldLists reports when they are out
// of date; `make golden` writes them.

const referencePage = "../docs/job.md"

// choices are a field's allowed words, and limits its allowed numbers; TestValuesInLists checks both against what is refused.
var choices = map[string][]string{
	"cloud": {CloudLocal, "ec2", "gce", "kubernetes", CloudNone}, "security": {SecurityTLS, SecurityPlain}, "provider": {"ec2", "gce"},
	"policy": Policies(), "prefer": {PreferCost, PreferBalanced, PreferTime}, "resources.any_of[].arch": {market.ArchX86, market.ArchARM}, "train.consistency": {BSP, SSP, ASP},
	"limits.over_hour": {LimitWarn, LimitShrink, LimitStop}, "limits.over_budget": {LimitWarn, LimitStop},
	"on_loss": {OnLossRestart, OnLossReplace}, "tiers.transport": ps.Transports(), "local.rules": market.RuleNames(),
	"local.script[].do":     {DoEvict, DoEvictNow, DoKill, DoRebalance, DoNoCapacity, DoSlowStart, DoThrottle},
	"local.script[].target": {"oldest", "newest", "random", "all"},
}

var limits = map[string]struct{ text, inside, outside string }{
	"resources.count": {"1 to 100000", "100000", "100001"}, "resources.vcpu": {"1 to 25600000", "25600000", "25600001"},
	"reliable.count": {"0 to 100000", "100000", "100001"}, "train.clocks": {"from 1", "1", "0"},
	"train.splits": {"1 to 131072", "131072", "131073"}, "train.partitions": {"1 to 16384", "16384", "16385"},
	"train.staleness":      {"0 to 4096", "4096", "4097"},
	"train.evaluate_every": {"from 1", "1", "0"}, "train.holdout": {"0 to below 1", "0.99", "1"},
	"train.stop.min_improvement": {"0 to below 1", "0.5", "1"}, "checkpoint.keep": {"1 to 1000000", "1000000", "1000001"}, "checkpoint.every_clocks": {"from 1", "1", "0"},
	"checkpoint.overhead": {"0 to 10", "10", "11"}, "local.speed": {"1 to 1000000", "1000000", "1000001"},
	"local.script[].count": {"from 1", "1", "0"}, "budget": {"above $0", "$1", "$0"}, "value_of_time": {"above $0", "$1", "$0"}, "limits.per_hour": {"above $0", "$1", "$0"}, "resources.max_price": {"above $0", "$1", "$0"},
	"resources.any_of[].max_price": {"above $0", "$1", "$0"}, "max_duration": {"above 0s", "1s", "0s"},
}

// forms describe the format of texts that are not free.
var forms = map[string]string{
	"train.data": "path or URL", "checkpoint.to": "path or URL", "checkpoint.bandwidth": "bytes a second", "reliable.bandwidth": "bits or bytes a second",
	"alerts.url": "URL", "ec2.program.url": "URL", "gce.program.url": "URL", "ec2.endpoint": "URL", "ec2.controller.url": "URL", "gce.controller.url": "URL", "gce.endpoint": "URL", "kubernetes.program.url": "URL", "kubernetes.endpoint": "URL", "kubernetes.controller.url": "URL", "kubernetes.checkpoints": "URL", "kubernetes.listen": "address:port", "ec2.checkpoints": "URL", "gce.checkpoints": "URL",
	"ec2.listen": "address:port", "gce.listen": "address:port", "env": "mapping", "envs": "mapping", "sweep.envs": "mapping", "sweep.params": "mapping", "sweep.search": "`random` `grid` `tpe`", "secrets": "mapping", "run": "lines of bash", "setup": "lines of bash",
	"on_notice": "lines of bash", "workdir": "path", "resources.count": "number or range", "resources.gpu": "list of GPUs", "resources.any_of[].gpu": "MODEL:COUNT", "train.params": "mapping",
	"local.capacity": "mapping", "ec2.subnets": "mapping", "gce.labels": "mapping", "kubernetes.resources": "mapping", "kubernetes.pod": "mapping",
}

// described is a field as the structs describe it.
type described struct {
	path, value, fallback, text, example string
}

// comments returns the fields' comments, by struct and yaml name.
func comments(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	files := token.NewFileSet()
	sources, err := filepath.Glob("*.go")
	blocks, err2 := filepath.Glob("../providers/*/*.go")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	sources = append(sources, blocks...)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, source, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					if f.Tag == nil {
						continue
					}
					name := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml")
					texts[filepath.Base(filepath.Dir(source))+" "+spec.Name.Name+"."+name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
			return false
		})
	}
	return texts
}

var (
	goName   = regexp.MustCompile(`^[A-Z]\w* (?:is|are|says?|gives?|asks? for|lists|becomes?|names) `)
	goVerb   = regexp.MustCompile(`^[A-Z]\w*[a-z][A-Z]\w* |^(?:VCPU|CPUs|URL|SHA256) `)
	goLabel  = regexp.MustCompile(`^[A-Z]\w*: `)
	sentence = regexp.MustCompile(`(?:^|[.;] )(Default|Required)(?:$|[ :.,])`)
	pageName = regexp.MustCompile(`docs/(\w+)\.md`)
	// preposition matches the start of a text about what a field belongs to, rather than what it does.
	preposition = regexp.MustCompile(`^(?:of|by|in|on|to|from|with|that|they|or) `)
	wallClock   = regexp.MustCompile(`wall-clock`)
)

// describe splits a comment into a field's meaning and its default.
func describe(comment string) (text, fallback string) {
	text = comment
	if at := sentence.FindStringSubmatchIndex(comment); at != nil {
		text, fallback = strings.TrimRight(comment[:at[2]], " "), strings.TrimSuffix(comment[at[2]:], ".")
		if rest, ok := strings.CutPrefix(fallback, "Default"); ok {
			fallback = strings.TrimLeft(rest, " :")
		} else {
			fallback = "required" + strings.TrimPrefix(fallback, "Required")
		}
	}
	words := goName.FindString(text)
	verb := strings.TrimSpace(strings.TrimPrefix(words, strings.SplitN(words, " ", 2)[0]))
	switch {
	case verb == "is" || verb == "are":
		text = strings.TrimPrefix(text, words)
	case words != "":
		text = strings.TrimPrefix(text, strings.SplitN(words, " ", 2)[0]+" ")
	case goVerb.MatchString(text):
		text = text[len(goVerb.FindString(text)):]
	}
	if _, what, ok := strings.Cut(text, ": "); ok && goLabel.MatchString(text) {
		text = what
	}
	if len(text) > 1 && strings.ToLower(text[1:2]) == text[1:2] {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	link := func(s string) string { return pageName.ReplaceAllString(s, "[$1]($1.md)") }
	return link(strings.TrimSuffix(whatTime.ReplaceAllString(text, ""), ".")), link(fallback)
}

// whatTime matches what the column of values says about a duration.
var whatTime = regexp.MustCompile(`,? in (?:wall-clock|market) time,?`)

// valueOf returns what to write, by the field's type.
func valueOf(path string, f field, t reflect.Type, comment string) string {
	if words, ok := choices[path]; ok {
		return "`" + strings.Join(words, "` `") + "`"
	}
	kind := forms[path]
	if kind == "" {
		kind = kindName(f, t, comment)
	}
	if l, ok := limits[path]; ok {
		kind += ", " + l.text
	}
	if _, shown, _ := strings.Cut(example(path), ": "); forms[path] != "" && kind[0] != '`' && !strings.HasSuffix(kind, "URL") && !strings.HasPrefix(kind, "lines") || kind == "list" {
		kind += ": `" + strings.TrimSpace(shown) + "`"
	} else if kind == "text" {
		kind = "`" + shown + "`"
	}
	return kind
}

func kindName(f field, t reflect.Type, comment string) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		if wallClock.MatchString(comment) {
			return "duration, wall-clock"
		}
		return "duration"
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[market.USD]():
		return "money"
	case reflect.TypeFor[Memory]():
		return "memory"
	case reflect.TypeFor[CPUs]():
		return "CPUs"
	case reflect.TypeFor[Rate]():
		return "rate"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "fields"
	case reflect.Slice:
		return "list"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	if f.has("path") {
		return "path"
	}
	return "text"
}

// folderOf returns the folder of a struct of the schema: this package's are in ".".
func folderOf(t reflect.Type) string {
	folder := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	if folder == "config" {
		return "."
	}
	return folder
}

// everyField describes all fields, in the order of the structs.
func everyField(t *testing.T) (all []described) {
	texts := comments(t)
	var walk func(prefix string, of reflect.Value)
	walk = func(prefix string, of reflect.Value) {
		for _, f := range membersOf(of) {
			path, ft := join(prefix, f.name), f.value.Type()
			comment := texts[folderOf(of.Type())+" "+of.Type().Name()+"."+f.name]
			for _, shared := range []string{"Installation", "UserProgram", "Sharing"} { // embedded in blocks, or part of a job
				comment = cmp.Or(comment, texts[". "+shared+"."+f.name])
			}
			if _, block := ProviderNamed(path); block {
				comment = "Describes the installation on " + Title(path) + ". Required with `cloud: " + path + "`, and only there."
			}
			d := described{path: path, value: valueOf(path, f.field, ft, comment)}
			d.text, d.fallback = describe(comment)
			if verb, ok := strings.CutPrefix(d.text, strings.ReplaceAll(f.name, "_", "")+" "); ok && !preposition.MatchString(verb) { // the field does so itself
				d.text = verb
			}
			d.example, _, _ = strings.Cut(example(path), ", and below it")
			if comment == "" || d.text == "" {
				t.Errorf("%s has no comment that says what it is", path)
			}
			if d.fallback == "" {
				t.Errorf("%s: its comment has no sentence that begins with Default or Required: %q", path, comment)
			}
			all = append(all, d)
			switch {
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
				walk(path+"[]", reflect.New(ft.Elem()).Elem())
			case !isScalar(ft) && ft.Kind() == reflect.Struct:
				walk(path, f.value)
			}
		}
	}
	walk("", reflect.ValueOf(&Job{}).Elem())
	return all
}

// listOf returns the list of one part of the job: "the job" is everything in no section; "gce beyond ec2" has a last line with the names of
// fields that ec2 has with the same text; the fields below a named one are not named again. A part with its own heading on the page needs
// no line. It also returns the named fields.
func listOf(part string, all []described, page string) (list string, alike []string) {
	var b strings.Builder
	part, like, _ := strings.Cut(part, " beyond ")
	headed := strings.Contains(page, "\n## `"+part+"`")
	sections := map[string]bool{}
	for _, d := range all {
		if name, _, below := strings.Cut(d.path, "."); below {
			sections[strings.TrimSuffix(name, "[]")] = true
		}
	}
	for _, d := range all {
		name, _, _ := strings.Cut(d.path, ".")
		name = strings.TrimSuffix(name, "[]")
		if twin := like + strings.TrimPrefix(d.path, part); like != "" && name == part && slices.ContainsFunc(all, func(o described) bool {
			return o.path == twin && o.text == d.text && o.fallback == d.fallback
		}) {
			alike = append(alike, d.path)
			continue
		}
		if headed && d.path == part {
			continue
		}
		if name == part || part == "the job" && !sections[name] {
			b.WriteString(line(d))
		}
	}
	var names []string
	for _, path := range alike {
		if above := path[:max(0, strings.LastIndexByte(path, '.'))]; !slices.Contains(alike, above) {
			names = append(names, "`"+strings.TrimPrefix(path, part+".")+"`")
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, "- As in `%s`: %s.\n", like, strings.Join(names, ", "))
	}
	return b.String(), alike
}

// line formats a field as a line of a list: what to write, its meaning, and its default.
func line(d described) string {
	value, fallback := d.value, "Default: "+d.fallback+"."
	if rest, ok := strings.CutPrefix(d.fallback, "required"); ok {
		value, fallback = value+"; required", ""
		if note, ok := strings.CutPrefix(rest, ": "); ok {
			fallback = sentenceOf(note)
		} else {
			value += rest
		}
	} else if d.fallback == "none" { // the page says so
		fallback = ""
	}
	return strings.TrimSpace(fmt.Sprintf("- `%s` (%s): %s. %s", d.path, value, d.text, fallback)) + "\n"
}

// sentenceOf makes a sentence from words.
func sentenceOf(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

var listMark = regexp.MustCompile(`(?s)<!-- fields of ([\w. ]+)(?:;[^>]*)? -->\n.*?<!-- end -->`)

//go:generate go test -run TestFieldLists . -update

// TestFieldLists checks that the lists of docs/job.md are those of the structs.
func TestFieldLists(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	all := everyField(t)
	var named []string
	made := listMark.ReplaceAllStringFunc(string(page), func(old string) string {
		part := listMark.FindStringSubmatch(old)[1]
		list, alike := listOf(part, all, string(page))
		named = append(named, alike...)
		return fmt.Sprintf("<!-- fields of %s -->\n%s<!-- end -->", part, list)
	})
	if *update {
		if err := os.WriteFile(referencePage, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != string(page) {
		t.Error("the lists of docs/job.md are out of date: write them by `make golden`, and read the difference")
	}
	for _, d := range all {
		if !strings.Contains(made, "\n- `"+d.path+"` (") && !slices.Contains(named, d.path) && !strings.Contains(made, "\n## `"+d.path+"`") {
			t.Errorf("%s is in no list of docs/job.md", d.path)
		}
	}
}

// A default that is written as a value is the one that a job gets.
func TestDefaultsInTables(t *testing.T) {
	job := reflect.ValueOf(defaults()).Elem()
	checked := 0
	for _, d := range everyField(t) {
		if strings.Contains(d.path, "[]") {
			continue
		}
		value, typ := job, reflect.Type(nil)
		for name := range strings.SplitSeq(d.path, ".") {
			members := membersOf(value)
			value = members[slices.IndexFunc(members, func(m member) bool { return m.name == name })].value
			typ = value.Type()
		}
		if value.IsZero() || !isScalar(typ) {
			continue
		}
		word := strings.Trim(strings.FieldsFunc(d.fallback, func(r rune) bool { return strings.ContainsRune(" ,:;", r) })[0], "`")
		got, wrong := parseScalar(word, typ)
		if wrong != nil || !reflect.ValueOf(got).Convert(typ).Equal(value) {
			t.Errorf("%s: the comment says %q; a job has %v", d.path, d.fallback, value)
		}
		checked++
	}
	if checked < 15 {
		t.Errorf("only %d defaults were checked", checked)
	}
}

// refuses loads a job with one more field and returns the faults.
func refuses(t *testing.T, path, line string) (faults Faults) {
	t.Helper()
	var job map[string]any
	text, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := yaml.Unmarshal([]byte(line), &value); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	at := any(job)
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		name := strings.TrimSuffix(step, "[]")
		inside := at.(map[string]any)
		switch existing := inside[name].(type) {
		case nil:
			inside[name] = map[string]any{}
			at = inside[name]
		case []any:
			at = existing[min(1, len(existing)-1)] // in the script: one that accepts most fields
		default:
			at = existing
		}
	}
	maps.Copy(at.(map[string]any), value)
	if path == "resources.vcpu" {
		delete(job["resources"].(map[string]any), "count")
	}
	if strings.HasPrefix(path, "tiers.") {
		delete(job, "train")
		job["run"] = "./train"
	}
	var file bytes.Buffer
	encoder := yaml.NewEncoder(&file)
	if err := encoder.Encode(job); err != nil {
		t.Fatal(err)
	}
	_, err = parse(filepath.Join("testdata", "good.yaml"), file.Bytes(), noEnvironment)
	if all, ok := errors.AsType[Faults](err); ok {
		for _, f := range all {
			if listIndex().ReplaceAllString(f.Field, "[]") == path {
				faults = append(faults, f)
			}
		}
	} else if err != nil {
		t.Fatal(err)
	}
	return faults
}

// What the lists say about words and numbers is what is refused and accepted.
func TestValuesInLists(t *testing.T) {
	last := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	for path, words := range choices {
		if faults := refuses(t, path, last(path)+": rubbish"); len(faults) == 0 {
			t.Errorf("%s takes any word", path)
		}
		for _, word := range words {
			for _, f := range refuses(t, path, last(path)+": "+word) {
				if strings.Contains(f.Problem, "does not exist") || strings.Contains(f.Problem, "not in this build") {
					t.Errorf("%s does not take %s: %v", path, word, f)
				}
			}
		}
	}
	for path, l := range limits {
		if faults := refuses(t, path, last(path)+": "+l.outside); len(faults) == 0 {
			t.Errorf("%s takes %s; the list says %s", path, l.outside, l.text)
		}
		if faults := refuses(t, path, last(path)+": "+l.inside); len(faults) > 0 {
			t.Errorf("%s does not take %s: %v", path, l.inside, faults)
		}
	}
}

// Each field's example is of that field, and can be read.
func TestFieldExamples(t *testing.T) {
	for _, d := range everyField(t) {
		name := d.path[strings.LastIndexByte(d.path, '.')+1:]
		if !strings.HasPrefix(d.example, name+":") || d.example == name+": 1" && d.path != "seed" && !strings.HasSuffix(d.path, "count") &&
			!strings.HasSuffix(d.path, "two_above") {
			t.Errorf("the example of %s is %q; write one in schema.go", d.path, d.example)
			continue
		}
		for _, f := range refuses(t, d.path, d.example) {
			if !strings.Contains(f.Problem, "cannot read") && !strings.Contains(f.Problem, "is for cloud") && !strings.Contains(f.Problem, "has no meaning") &&
				!strings.Contains(f.Problem, "both given") && !strings.Contains(f.Problem, "rule") && !strings.Contains(f.Problem, "has no use") &&
				!strings.Contains(f.Problem, "a type and a need") {
				t.Errorf("the example %q: %v", d.example, f)
			}
		}
	}
}
