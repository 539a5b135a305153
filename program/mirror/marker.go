package mirror

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// With a marker, a directory is complete once it has a file of that name that is newer than everything next to and
// below it. Until then the previous generation's version of the directory still counts, and a directory that never had
// a marker does not count.
//
// File times are coarse: a whole checkpoint may be written within one tick of the clock, and so may the next one's
// first file. Where times tie, the order in which the system reported the changes decides (order).

// marked returns the directories with the marker: complete ones, and those with something newer than it.
func (p *pass) marked(all listing) (complete, torn []string) {
	var dirs []string
	markers, late := map[string]stat{}, map[string]bool{} // by directory
	for _, f := range all {
		if path.Base(f.name) == p.config.Marker && f.isRegular() {
			dir := path.Dir(f.name)
			dirs = append(dirs, dir)
			markers[dir], late[dir] = f.stat, p.written(f.name, f.stat)
		}
	}
	for _, f := range all {
		dir, ok := nearest(dirs, f.name)
		if !ok || !f.isRegular() {
			continue
		}
		switch cmp.Compare(f.changed, markers[dir].changed) {
		case 1:
			late[dir] = true
		case 0:
			marker := path.Join(dir, p.config.Marker)
			late[dir] = late[dir] || f.name != marker && (p.written(f.name, f.stat) || !p.order.before(f.name, marker))
		}
	}
	for _, dir := range dirs {
		if late[dir] {
			torn = append(torn, dir)
		} else {
			complete = append(complete, dir)
		}
	}
	return complete, torn
}

// nearest returns the innermost directory in a list that contains a name.
func nearest(dirs []string, name string) (found string, ok bool) {
	for _, dir := range dirs {
		if within(dir, name) && (!ok || found == "." || dir != "." && len(dir) > len(found)) {
			found, ok = dir, true
		}
	}
	return found, ok
}

func within(dir, name string) bool { return dir == "." || strings.HasPrefix(name, dir+"/") }

// onlyMarked returns what is in complete directories.
func (p *pass) onlyMarked(all listing) listing {
	complete, torn := p.marked(all)
	dirs := slices.Concat(complete, torn)
	return slices.DeleteFunc(slices.Clone(all), func(f found) bool {
		dir, in := nearest(dirs, f.name)
		leads := f.isDir() && slices.ContainsFunc(complete, func(dir string) bool { return f.name == dir || within(f.name, dir) })
		return !leads && (!in || slices.Contains(torn, dir))
	})
}

// dirsOf returns the directories of what onlyMarked has left: all are complete, whatever happened since.
func (p *pass) dirsOf(wanted listing) (dirs []string) {
	for _, f := range wanted {
		if path.Base(f.name) == p.config.Marker {
			dirs = append(dirs, path.Dir(f.name))
		}
	}
	return dirs
}

// changedDirs returns the marked directories that differ between two lists, or changed in between.
func (p *pass) changedDirs(a, b listing, seen uint64) (changed []string) {
	complete := p.dirsOf(a)
	for _, dir := range complete {
		if p.order.changed(seen, dir) {
			changed = append(changed, dir)
		}
	}
	differs := func(name string) {
		if dir, in := nearest(complete, name); in && !slices.Contains(changed, dir) {
			changed = append(changed, dir)
		}
	}
	rest := b
	for _, x := range a {
		if y := rest.next(x.name); y == nil || !x.isDir() && !unchanged(x.stat, *y) {
			differs(x.name)
		}
	}
	rest = a
	for _, y := range b {
		if rest.next(y.name) == nil {
			differs(y.name)
		}
	}
	return changed
}

// asBefore replaces incomplete directories by their versions in the previous generation. A deleted directory stays
// deleted.
func (p *pass) asBefore(entries []Entry, now listing, changed []string) []Entry {
	if p.config.Marker == "" {
		return entries
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool {
		_, in := nearest(changed, e.Path)
		return in
	})
	latest := p.Latest()
	if latest == nil {
		return entries
	}
	complete := p.dirsOf(now)
	var dirs []string
	for _, e := range latest.Files {
		if path.Base(e.Path) == p.config.Marker {
			dirs = append(dirs, path.Dir(e.Path))
		}
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Path] = true
	}
	for _, dir := range dirs {
		if slices.Contains(complete, dir) && !slices.Contains(changed, dir) || !p.isDir(dir) {
			continue
		}
		p.left = append(p.left, "what is newer than "+path.Join(dir, p.config.Marker))
		for _, e := range latest.Files {
			at, in := nearest(dirs, e.Path)
			if !there[e.Path] && (in && at == dir || e.Dir && (e.Path == dir || within(e.Path, dir))) {
				entries, there[e.Path] = append(entries, e), true
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return entries
}

func (p *pass) isDir(name string) bool {
	if p.root == nil {
		return false
	}
	now, err := p.lstat(name)
	return err == nil && now.isDir()
}
