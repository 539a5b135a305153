// Package filenames has the conventions for names of a program's files, for checks of a job file and for moving the files. It knows nothing
// about stores and archives.
package filenames

import "strings"

// PackedEnding is the ending of a packed folder's name.
const PackedEnding = ".tar.zst"

// Complete reports whether a file of this name may be complete. By convention, a program writes under a temporary name and renames.
func Complete(name string) bool {
	return !strings.HasSuffix(name, ".tmp") && !strings.HasSuffix(name, ".part") && !strings.HasPrefix(name, ".tierml-")
}
