package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// always is never packed: it is large, can be recreated, or has nothing to do with the program.
var always = []string{".git/", ".hg/", "__pycache__/", ".venv/", ".ipynb_checkpoints/", ".DS_Store"}

// madeFor is in each Python virtual environment, which only works where it was created.
const madeFor = "pyvenv.cfg"

// ignored decides which files of a folder are not packed.
type ignored struct {
	dir    string
	always rules
	file   string // the name of ignore files in subfolders
	lists  []list // nested ones after their parents
}

// list is an ignore file, which applies to its folder.
type list struct {
	in    string // with slashes, also at its end
	rules rules
}

// readIgnored reads .tierignore or, if there is none, .gitignore.
func readIgnored(dir string) (i *ignored, err error) {
	i = &ignored{dir: dir, file: IgnoreFile}
	if i.always, err = parse(strings.Join(always, "\n")); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, IgnoreFile)); errors.Is(err, fs.ErrNotExist) {
		i.file = gitIgnore
	}
	return i, i.enter("")
}

// enter reads the ignore file of a folder that is not ignored. Only .gitignore also applies in subfolders.
func (i *ignored) enter(below string) error {
	if below != "" && i.file != gitIgnore {
		return nil
	}
	name := filepath.Join(below, i.file)
	text, err := os.ReadFile(filepath.Join(i.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l := list{rules: r}
	if below != "" {
		l.in = filepath.ToSlash(below) + "/"
	}
	i.lists = append(i.lists, l)
	return nil
}

// match reports whether a path is ignored, and whether a .gitignore says so.
func (i *ignored) match(below string, folder bool) (behind, byGit bool) {
	if folder {
		if _, err := os.Lstat(filepath.Join(i.dir, below, madeFor)); err == nil {
			return true, false
		}
	}
	behind, _ = i.always.match(below, folder)
	for _, l := range i.lists {
		if rest, inside := strings.CutPrefix(below, l.in); inside {
			if ignore, said := l.rules.match(rest, folder); said {
				behind, byGit = ignore, ignore && i.file == gitIgnore
			}
		}
	}
	return behind, byGit
}

// rules are the lines of an ignore file; the last one that matches decides.
type rules []rule

type rule struct {
	expression *regexp.Regexp // of a path below the folder
	folders    bool           // matches folders only
	keep       bool           // !pattern
}

// parse reads patterns in the syntax of .gitignore.
func parse(text string) (rules, error) {
	var all rules
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var r rule
		pattern := line
		if rest, ok := strings.CutPrefix(pattern, "!"); ok {
			r.keep, pattern = true, rest
		}
		pattern = strings.TrimPrefix(pattern, `\`) // of \# and \!
		if rest, ok := strings.CutSuffix(pattern, "/"); ok {
			r.folders, pattern = true, rest
		}
		// A pattern with a slash starts at the folder; without, it is a name at any depth.
		if !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		pattern = strings.TrimPrefix(pattern, "/")
		expression, err := regexp.Compile("^" + translate(pattern) + "$")
		if pattern == "" || err != nil {
			return nil, fmt.Errorf("the pattern %q cannot be read", line)
		}
		r.expression = expression
		all = append(all, r)
	}
	return all, nil
}

// translate converts a pattern to a regular expression.
func translate(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			i++
		case rest[0] == '*':
			b.WriteString("[^/]*")
		case rest[0] == '?':
			b.WriteString("[^/]")
		case rest[0] == '[' && strings.Contains(rest, "]"):
			class := rest[:strings.Index(rest, "]")+1]
			i += len(class) - 1
			if strings.HasPrefix(class, "[!") {
				class = "[^" + class[2:]
			}
			b.WriteString(class)
		case rest[0] == '\\' && len(rest) > 1:
			i++
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	return b.String()
}

// match reports whether a path is ignored, and whether any line matches it. Paths in an ignored folder are not queried.
func (r rules) match(path string, folder bool) (ignored, said bool) {
	for _, rule := range r {
		if (folder || !rule.folders) && rule.expression.MatchString(path) {
			ignored, said = !rule.keep, true
		}
	}
	return ignored, said
}
