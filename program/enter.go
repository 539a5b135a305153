package program

import (
	"os"
	"path/filepath"
	"strings"
)

// EnterScript is the file below Config.Dir that runs a command, or without one a shell, in the folder and with the variables of the newest
// attempt, except secrets.
const EnterScript = "enter"

// writeEnter replaces the script.
func (a *attempt) writeEnter() error {
	var b strings.Builder
	name := filepath.Join(a.m.config.Dir, EnterScript)
	b.WriteString("#!/usr/bin/env bash\n")
	switch c := a.m.container; {
	case c != nil && !c.over():
		b.WriteString(c.enter(name))
	case a.m.config.Spec.Image != "":
		b.WriteString("echo 'the container of the program is being prepared; try again' >&2; exit 1\n")
	}
	b.WriteString("cd " + quote(a.m.work()) + "\n")
	for _, one := range a.environment(nil) {
		if name, value, _ := strings.Cut(one, "="); shellName(name) {
			b.WriteString("export " + name + "=" + quote(value) + "\n")
		}
	}
	b.WriteString("[ $# -gt 0 ] || set -- bash\nexec \"$@\"\n")
	if err := os.WriteFile(name+".new", []byte(b.String()), 0o700); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// shellName reports whether a variable name is valid in a shell.
func shellName(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// quote quotes a word for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
