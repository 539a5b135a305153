package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/elasticity/hosts"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// as makes a command run as a user, with a minimal environment.
func as(uid int, cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
	return cmd
}

// spy is another user, looking for an owner's data.
type spy struct {
	*testing.T
	uid, owner int
	other      int            // a third user, whose files do not count
	refused    map[string]int // failed attempts, by kind
	got        map[string][]string
}

// cat tries to read a file.
func (s *spy) cat(kind, path string) {
	s.Helper()
	out, err := as(s.uid, exec.Command("head", "-c", "64", path)).Output()
	s.note(kind, path, len(out) > 0 && err == nil)
}

func (s *spy) note(kind, what string, read bool) {
	if read {
		s.got[kind] = append(s.got[kind], what)
		return
	}
	s.refused[kind]++
}

// owned reports whether a file or process is the owner's.
func (s *spy) owned(path string) bool { return s.ownedBy(path, s.owner) }

func (s *spy) ownedBy(path string, uid int) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}

// processes tries to read the memory, environment and open files of all processes of the owner.
func (s *spy) processes() {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if !s.owned(dir) {
			continue
		}
		s.cat("environment", dir+"/environ")
		s.cat("memory", dir+"/maps")
		open, _ := os.ReadDir(dir + "/fd")
		for _, fd := range open {
			path := dir + "/fd/" + fd.Name()
			if to, err := os.Stat(path); err == nil && (to.Mode().IsRegular() || to.Mode()&fs.ModeNamedPipe != 0) {
				s.cat("open file", path)
			}
		}
	}
}

// files tries to read all files of the owner below a folder, on its file system.
func (s *spy) files(root string) {
	var top syscall.Stat_t
	if err := syscall.Stat(root, &top); err != nil {
		s.Fatal(err)
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files come and go
		}
		if d.IsDir() {
			var here syscall.Stat_t
			if syscall.Lstat(path, &here) != nil || here.Dev != top.Dev {
				return fs.SkipDir // such as /proc, mounted a second time
			}
		}
		switch {
		case !d.Type().IsRegular():
		case filepath.Ext(path) == ".log" && !s.ownedBy(path, s.other): // root's logs have the output of slots
			s.cat("log", path)
		case s.owned(path):
			s.cat("file", path)
		}
		return nil
	})
}

// sockets tries every port of the owner on this computer: it sends something and waits for an answer.
func (s *spy) sockets() {
	s.Helper()
	const listening, local, state, user = "0A", 1, 3, 7
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) <= user || f[state] != listening || f[user] != strconv.Itoa(s.owner) {
				continue
			}
			_, hex, _ := strings.Cut(f[local], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				s.Fatal(err)
			}
			say := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0' >&3; timeout 5 head -c 1 <&3`, port)
			out, _ := as(s.uid, exec.Command("bash", "-c", say)).Output() // a closed connection is the desired result
			s.note("socket", net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10)), len(out) > 0)
		}
	}
}

// Two unprivileged users each run a job on shared hosts that root keeps. The slots' processes are theirs: neither can read rows (which are
// in memory, in files and behind sockets), files, environments or logs of the other's job, or its slots' output in root's logs, nor get an
// answer from its sockets, nor see its slots at the desk. Both models are those of one process.
func TestTwoUsersShareHosts(t *testing.T) {
	if os.Getenv("TIERML_TEST_USERS") == "" {
		t.Skip("make isolation runs it")
	}
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Fatal("only root on Linux can start processes of other users")
	}
	const ann, ben = 20_001, 20_002
	temporary := t.TempDir() // searching the computer's own temporary folder would take longer than the runs
	for dir, mode := range map[string]os.FileMode{filepath.Dir(temporary): 0o711, temporary: 0o777 | os.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", temporary)
	s := newSite(t)
	for _, dir := range []string{filepath.Dir(s.dir), filepath.Dir(builtBinary(t))} { // other users may traverse them
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	s.sharedMarket()
	door := s.path("door")
	if err := os.Mkdir(door, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("shared.yaml", strings.Replace(sharedHosts, "{wait: 20h}", fmt.Sprintf("{wait: 20h, users: 20000..20099, door: %s}", door), 1))
	cloud, endpoint := s.cloud("600", "5000")
	keeper := s.start("hosts", "-y", "--plain", "--endpoint", endpoint, "shared.yaml")
	s.poll("the door", func() bool { _, err := os.Stat(filepath.Join(door, desk.DoorFile)); return err == nil })
	runs := map[int]*process{}
	for user, name := range map[int]string{ann: "ann", ben: "ben"} {
		s.write(name+".yaml", fmt.Sprintf(sharingJob, name, "  app: mf\n  clocks: 40\n  data: "+s.path("ratings.csv")+"\n  params: {rank: 4, batches: 4}"))
		own := s.path(name)
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(own, user, user); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(s.path(name + ".yaml"))
		for _, file := range []string{"prices.csv", "catalog.csv"} {
			text = bytes.Replace(text, []byte(": "+file), []byte(": "+s.path(file)), 1)
		}
		if err := os.WriteFile(s.path(name+".yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		script := `cd "$0" && exec "$@"`
		runs[user] = s.startCommand(as(user, exec.Command("sh", "-c", script, own, builtBinary(t), "run", "-y", "--plain", "--on", door, s.path(name+".yaml"))))
	}
	joined := func(name string) bool {
		entries, _, _ := journal.ReadFile(s.path(name, rundir.Root, name+"-1", rundir.JournalFile)) // not there yet
		return count(entries, journal.Join) == 3 && clockIs(3)(entries)
	}
	s.poll("slots of both", func() bool { return joined("ann") && joined("ben") })
	for _, pair := range [][2]int{{ann, ben}, {ben, ann}, {ann, ann}} {
		p := &spy{T: t, uid: pair[0], owner: pair[1], other: ann + ben - pair[1], refused: map[string]int{}, got: map[string][]string{}}
		p.processes()
		p.files(filepath.Dir(temporary)) // the site is next to it
		p.sockets()
		if p.uid == p.owner { // the same accesses succeed
			for _, kind := range []string{"environment", "memory", "file", "log", "open file", "socket"} {
				if len(p.got[kind]) == 0 {
					t.Errorf("user %d cannot read their own: %s", p.uid, kind)
				}
			}
			continue
		}
		t.Logf("user %d tried in vain what is user %d's: %v", p.uid, p.owner, p.refused)
		if len(p.got) > 0 {
			t.Errorf("user %d has read what is user %d's: %v", p.uid, p.owner, p.got)
		}
	}
	s.askForOthers(door, ann, ben)
	for user, name := range map[int]string{ann: "ann", ben: "ben"} {
		runs[user].wait(0)
		model, err := os.ReadFile(s.path(name, rundir.Root, name+"-1", rundir.ModelFile))
		if err != nil || !bytes.Equal(model, s.modelOfOneProcess(s.path(name+".yaml"))) {
			t.Errorf("the model of %s is not that of a single process (%v)", name, err)
		}
	}
	s.start("stop", "shared-1").wait(0)
	keeper.wait(0)
	cloud.signal(syscall.SIGTERM)
	cloud.wait(0)
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "tierml-slots-*")); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
}

// askForOthers has a user query the desk about another user's job, and a user without a right to slots about their own.
func (s *site) askForOthers(door string, user, owner int) {
	s.t.Helper()
	lines, err := desk.ReadBook(s.path(rundir.Root, "shared-1"))
	if err != nil {
		s.t.Fatal(err)
	}
	at := slices.IndexFunc(lines, func(l hosts.Line) bool { return l.User == owner })
	if at < 0 {
		s.t.Fatalf("no slot is user %d's: %+v", owner, lines)
	}
	text, err := os.ReadFile(filepath.Join(door, desk.DoorFile))
	if err != nil || bytes.Contains(text, []byte("key")) {
		s.t.Fatalf("the door is %s: %v", text, err)
	}
	script := `curl -s "http://$(sed 's/.*"address":"\([^"]*\)".*/\1/' "$0")/jobs/$1"`
	for uid, want := range map[int]string{owner: `"slots":[`, user: `"denied"`, 65_534: ""} {
		out, _ := as(uid, exec.Command("sh", "-c", script, filepath.Join(door, desk.DoorFile), lines[at].Job)).Output() // a closed connection is an error
		if want == "" && len(out) > 0 || !bytes.Contains(out, []byte(want)) {
			s.t.Errorf("user %d asks for the slots of user %d's job: %s", uid, owner, out)
		}
	}
}
