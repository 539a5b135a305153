package fakecloud

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/kin"
)

// homesOf returns the folder for the homes of all machines of a user's fake clouds. A cloud that is killed leaves those of its machines;
// the next cloud removes them, once no process uses them.
func homesOf(temporary string, uid int) string {
	return filepath.Join(temporary, "tierml-fakecloud-"+strconv.Itoa(uid))
}

// newHome creates a machine's home. Its name ends in the cloud's tag.
func newHome(machine, tag string) (home string, remove func(), err error) {
	root := homesOf(os.TempDir(), os.Getuid())
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", nil, fmt.Errorf("homes of machines: %w", err)
	}
	if info, err := os.Lstat(root); err != nil || !info.IsDir() || !owned(info) {
		return "", nil, fmt.Errorf("homes of machines: %s is not this user's own folder", root)
	}
	swept.Do(func() { sweep(root) })
	home, err = os.MkdirTemp(root, machine+"-*"+tag)
	for tries := 0; errors.Is(err, os.ErrNotExist) && tries < 10; tries++ { // the last machine of another cloud has just removed the folder
		if err = os.Mkdir(root, 0o700); err == nil || errors.Is(err, os.ErrExist) {
			home, err = os.MkdirTemp(root, machine+"-*"+tag)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("homes of machines: %w", err)
	}
	return home, func() {
		_ = os.RemoveAll(home)
		_ = os.Remove(root) // others may have theirs in it
	}, nil
}

// tag returns the suffix of the homes of a cloud with these records, in all of its processes; empty = it has no records.
func (c *Cloud) tag() string {
	if c.config.Records == "" {
		return ""
	}
	path, err := filepath.Abs(c.config.Records)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(path))
	return "." + hex.EncodeToString(sum[:6])
}

// bury ends remaining machines of this cloud's earlier, killed processes, and removes their homes.
func (c *Cloud) bury() {
	tag := c.tag()
	if tag == "" {
		return
	}
	root := homesOf(os.TempDir(), os.Getuid())
	homes, _ := filepath.Glob(filepath.Join(root, "*"+tag)) // the pattern is well-formed
	for _, home := range homes {
		kin.End(home)
		_ = os.RemoveAll(home)
	}
	_ = os.Remove(root) // others may have theirs in it
}

func owned(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// swept is once per process: machines of its own clouds have homes, too.
var swept sync.Once

// justMade is how long a home may have no process yet.
const justMade = time.Minute

// sweep removes homes without processes.
func sweep(root string) {
	homes, err := os.ReadDir(root)
	if err != nil || len(homes) == 0 {
		return
	}
	used, known := homesInUse()
	for _, e := range homes {
		home := filepath.Join(root, e.Name())
		if info, err := e.Info(); err == nil && known && !used[home] && time.Since(info.ModTime()) > justMade {
			_ = os.RemoveAll(home)
		}
	}
}

// homesInUse returns the homes of this user's processes; unknown on systems without /proc.
func homesInUse() (used map[string]bool, known bool) {
	processes, err := filepath.Glob("/proc/[0-9]*/environ")
	used = map[string]bool{}
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // another user's, or ended
		}
		for variable := range bytes.SplitSeq(text, []byte{0}) {
			if home, ok := strings.CutPrefix(string(variable), "HOME="); ok {
				used[home] = true
			}
		}
	}
	return used, err == nil && len(used) > 0
}
