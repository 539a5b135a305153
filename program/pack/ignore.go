package pack

import (
	"fmt"
	"regexp"
	"strings"
)

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
		// With a slash in it, a pattern starts at the folder; without, it is a name at any depth.
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

// translate makes a regular expression of a pattern.
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

// match reports whether a path stays behind. Paths in a folder that stays behind are not queried.
func (r rules) match(path string, folder bool) (ignored bool) {
	for _, rule := range r {
		if (folder || !rule.folders) && rule.expression.MatchString(path) {
			ignored = !rule.keep
		}
	}
	return ignored
}
