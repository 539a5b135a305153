// Package docstest keeps the pages correct where a machine can check them: links lead somewhere, and what a page names in code style (make
// targets, commands and flags of tierml, Go identifiers, tests, files) exists.
//
// It reads text and Go syntax with the standard library only, so it needs no build. It does not judge sentences: whether they are true is
// up to readers and other tests.
package docstest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Fault is something on a page that is not true.
type Fault struct {
	File string
	Line int
	What string
}

// String returns "docs/x.md:7: ...".
func (f Fault) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What) }

// Check reads all pages of a repository and returns their faults, in order.
func Check(repository fs.FS) ([]Fault, error) {
	facts, err := gather(repository)
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	var faults []Fault
	for _, name := range facts.pages {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, fmt.Errorf("docstest: %w", err)
		}
		p := page{facts: facts, name: name, language: "text"}
		for i, line := range strings.Split(string(text), "\n") {
			p.line = i + 1
			p.read(line)
		}
		faults = append(faults, p.faults...)
	}
	return faults, nil
}

// page is one page that is being read.
type page struct {
	*facts
	name     string
	line     int
	inCode   bool
	language string
	faults   []Fault
}

func (p *page) fault(format string, args ...any) {
	p.faults = append(p.faults, Fault{File: p.name, Line: p.line, What: fmt.Sprintf(format, args...)})
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	link     = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
)

func (p *page) read(line string) {
	if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
		p.inCode = !p.inCode
		p.language = fence
		return
	}
	if p.inCode {
		if p.language == "sh" {
			p.shell(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		}
		return
	}
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		if strings.HasPrefix(m[1], "--") {
			p.flagsOf(strings.Fields(m[1]))
		}
		p.shell(m[1])
		p.identifier(m[1])
		p.file(m[1])
	}
	for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
		p.link(m[1])
	}
}

// link follows a relative link, also to a heading.
func (p *page) link(target string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, heading, toHeading := strings.Cut(target, "#")
	to := p.name
	if file != "" {
		to = path.Join(path.Dir(p.name), file)
	}
	switch {
	case !p.exists(to):
		p.fault("the link to %s leads nowhere", target)
	case toHeading && !slices.Contains(p.headings[to], heading):
		p.fault("%s has no heading %q", to, heading)
	}
}

// shell checks a command line, or something in code style that may be one.
func (p *page) shell(line string) {
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	for len(words) > 0 && strings.Contains(words[0], "=") { // VARIABLE=value command
		words = words[1:]
	}
	if len(words) < 2 {
		return
	}
	switch path.Base(words[0]) {
	case "make":
		p.make(words[1:])
	case "tierml":
		p.tierml(words[1:])
	}
}

// make checks the words after "make": a target of the folder after -C, else of the folder that Workdir returns for the page.
func (p *page) make(words []string) {
	folder := Workdir(p.name)
	if len(words) > 2 && words[0] == "-C" {
		folder, words = path.Join(folder, words[1]), words[2:]
	}
	if target := words[0]; !strings.Contains(target, "=") && lowerCase(target) && !p.targets[folder+" "+target] {
		p.fault("there is no make target %s in %s", target, path.Join(folder, "Makefile"))
	}
}

// Workdir returns the folder in which a page's calls of make and go run: lab for its pages, else the repository's root.
func Workdir(page string) string {
	if strings.HasPrefix(page, "lab/") {
		return "lab"
	}
	return "."
}

// flagsOf checks words that begin with a flag, as in `--starts 10`, or follow "tierml".
func (p *page) flagsOf(words []string) {
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && !p.flags[name] {
			p.fault("tierml has no flag --%s", name)
		}
	}
}

// tierml checks the words after "tierml".
func (p *page) tierml(words []string) {
	if lowerCase(words[0]) && !p.commands[words[0]] {
		p.fault("there is no command tierml %s", words[0])
	}
	p.flagsOf(words)
}

func lowerCase(word string) bool {
	return word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-0123456789") == "" && word[0] != '-'
}

var (
	qualified = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)(?:\(.*\))?$`)
	testName  = regexp.MustCompile(`^(?:Test|Fuzz|Example|Benchmark)[A-Z_]\w*$`)
)

// identifier checks `package.Name`, `package.Type.Member` and `TestName`. Other people's packages are skipped.
func (p *page) identifier(span string) {
	if testName.MatchString(span) && !p.tests[span] {
		p.fault("there is no test %s", span)
	}
	m := qualified.FindStringSubmatch(span)
	if m != nil && p.packages[m[1]] && !p.names[m[1]+"."+m[2]] {
		p.fault("package %s has no %s", m[1], m[2])
	}
}

var filePath = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)+\.(?:go|md|yaml|yml|proto|txtar|csv|gz|mod)$`)

// file checks paths in code style that begin with a folder of the repository. Other folders are the reader's own.
func (p *page) file(span string) {
	folder, _, _ := strings.Cut(span, "/")
	if filePath.MatchString(span) && !skipped(folder) && p.exists(folder) && !p.exists(span) {
		p.fault("there is no file %s", span)
	}
}
