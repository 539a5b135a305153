package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/access"
)

// intruder is a program that tries to access each item of a list that belongs to another group: files, folders and processes.
const intruder = `
tries=0
try() { tries=$((tries + 1)); if timeout 5 bash -c "$2" bash "$1" >/dev/null 2>&1; then echo "CROSSED $2: $1"; fi; }
while read -r what at; do
  case $what in
  file) for how in '[ -n "$(head -c 1 "$1")" ]' ': >>"$1"' 'rm "$1"' 'ln "$1" "$HOME/theirs"' 'chmod 777 "$1"'; do try "$at" "$how"; done ;;
  folder) for how in 'ls "$1"' 'cd "$1" && ls' ': >"$1/planted"' 'mv "$1" "$1.away"'; do try "$at" "$how"; done ;;
  process)
    for name in environ maps fd/0 fd/1 fd/3 mem auxv; do try "/proc/$at/$name" '[ -n "$(head -c 1 "$1")" ]'; done
    for name in cwd root fd; do try "/proc/$at/$name" 'ls "$1/"'; done
    for how in 'kill -CONT "$1"' 'kill "$1"' 'kill -KILL "$1"' 'renice 19 "$1"'; do try "$at" "$how"; done ;;
  esac
done <targets
[ -z "$(env | grep -i -e swordfish -e AWS_SECRET)" ] || echo "CROSSED the environment"
echo "tried $tries"
`

// Two groups run programs on one job server's own computer, and neither keeps secrets. A program of one, which knows each path and process
// of the other and of the job server, can access none; nor can its token at the job server.
func TestIsolatedGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of other users")
	}
	t.Parallel()
	s := newSite(t)
	t.Cleanup(s.killBelow)
	for _, dir := range []string{filepath.Dir(s.dir), s.dir, filepath.Dir(builtBinary(t))} { // other users may traverse them
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	tokens := map[string]access.Token{}
	groups := ""
	for _, group := range []string{"speech", "vision"} {
		tokens[group] = access.Random()
		text := strings.TrimPrefix(tokens[group].Bearer(), "Bearer ")
		if err := os.WriteFile(s.path(group+".token"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		groups += fmt.Sprintf("%s: {administer: [%s]}\n", group, tokens[group].SHA256())
	}
	s.write("groups.yaml", groups)
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	serve := func() *process {
		p := s.start("server", "--directory", "served", "--listen", address, "--groups", "groups.yaml", "--isolate", "--allow", "programs", "--set", "keep-free=0")
		s.poll("the job servers", func() bool {
			select {
			case err := <-p.ended:
				t.Fatalf("it ends: %v\n%s", err, p.out.String())
			default:
			}
			code, _ := askAs(t, tokens["vision"], address, http.MethodGet, "/api/v1/jobs", "")
			return code == http.StatusOK
		})
		return p
	}
	server := serve()
	submit := func(group, script string, fields ...string) *process {
		job := s.programJob(append([]string{oneMachine, "run: bash " + script, "envs: {UNTIL: 160, " + s.gate(0) + "}"}, fields...)...)
		text, err := os.ReadFile(s.path(job))
		if err != nil {
			t.Fatal(err)
		}
		s.write(group+".yaml", strings.NewReplacer("name: own", "name: "+group, "progress: {line: 'step (\\d+)', of: 160}\n", "").Replace(string(text)))
		return s.start("run", "-y", "--plain", "--server", "http://"+address, "--token-file", group+".token", group+".yaml")
	}

	if err := os.Mkdir(s.path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("work/victim.sh", "umask 0\necho swordfish >mine; mkdir open; echo swordfish >open/mine; echo $KEY >\"$TIERML_STATE/mine\"; echo swordfish >\"$TMPDIR/mine\"\n"+counting)
	s.write("secret", "swordfish")
	victim := submit("vision", "victim.sh", "secrets: {KEY: {file: secret}}")
	mine := func() (found []string) {
		_ = filepath.WalkDir(s.path("served"), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == "mine" {
				found = append(found, path)
			}
			return nil
		})
		return found
	}
	s.poll("the victim's files", func() bool {
		select {
		case err := <-victim.ended:
			t.Fatalf("the victim ends: %v\n%s", err, victim.out.String())
		default:
		}
		return len(mine()) >= 4
	})

	var vision int
	if info, err := os.Stat(s.path("served", "groups", "vision")); err != nil {
		t.Fatal(err)
	} else {
		vision = int(info.Sys().(*syscall.Stat_t).Uid)
	}
	targets := s.targets(vision)
	s.write("work/targets", strings.Join(targets, "\n")+"\n")
	s.write("work/intruder.sh", intruder)
	lasting := s.ofUser(vision)
	for range 50 { // alive for a second, which excludes those that the victim's script starts at each step
		now := s.ofUser(vision)
		lasting = slices.DeleteFunc(lasting, func(pid int) bool { return !slices.Contains(now, pid) })
		time.Sleep(20 * time.Millisecond)
	}
	submit("speech", "intruder.sh").wait(0)
	out := string(must(os.ReadFile(s.path("served", "groups", "speech", "runs", "speech-1", "logs", "rank-0.1.log")))(t))
	found := regexp.MustCompile(`tried (\d+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("the intruder did not come to its end:\n%s", out)
	}
	if tried, _ := strconv.Atoi(found[1]); tried < 200 || strings.Contains(out, "CROSSED") || strings.Contains(out, "swordfish") {
		t.Errorf("%d tries; it says\n%s", tried, out)
	}
	t.Logf("%s, %d targets of user %d", found[0], len(targets), vision)
	after := s.ofUser(vision)
	for _, pid := range lasting {
		if !slices.Contains(after, pid) {
			t.Errorf("process %d was there, and %v are", pid, after)
		}
	}
	// The same accesses succeed for the owner.
	own := exec.Command("bash", "-c", `cd "$0"; head -c 1 "$1" && ls "$2" && : >>"$1"`, s.dir, mine()[0], filepath.Dir(mine()[0]))
	if text, err := as(vision, own).CombinedOutput(); err != nil {
		t.Errorf("its own user cannot: %v %s", err, text)
	}

	for _, path := range []string{"/api/v1/jobs", "/api/v1/jobs/vision-1", "/api/v1/jobs/vision-1/logs", "/api/v1/jobs/vision-1/files/secrets.json", "/api/v1/jobs/vision-1/files/journal.jsonl", "/api/v1/groups", "/",
		"/runs/vision-1", "/api/v1/jobs/..%2f..%2fvision%2fruns%2fvision-1", "/metrics"} {
		if code, text := askAs(t, tokens["speech"], address, http.MethodGet, path, ""); code != http.StatusNotFound && strings.Contains(text, "vision") || strings.Contains(text, "swordfish") {
			t.Errorf("%s: %d %.300s", path, code, text)
		}
		if code, text := askAs(t, tokens["speech"], address, http.MethodGet, path, tokens["vision"].SHA256()); strings.Contains(text, "swordfish") || code == http.StatusOK && strings.Contains(text, "vision") {
			t.Errorf("with the header of another token, %s: %d %.300s", path, code, text)
		}
	}
	if code, text := askAs(t, tokens["speech"], address, http.MethodPost, "/api/v1/jobs/vision-1/stop", "", `{"now": true}`); code != http.StatusNotFound {
		t.Errorf("stopping the other's job: %d %s", code, text)
	}
	if code, _ := askAs(t, access.Random(), address, http.MethodGet, "/api/v1/jobs", tokens["vision"].SHA256()); code != http.StatusUnauthorized {
		t.Errorf("a stranger with the header of a token: %d", code)
	}

	// The job server of a group is killed, and then the front: jobs survive both, and sockets are removed.
	for _, pid := range s.ofUser(vision) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("\x00--behind\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	s.poll("it is there again", func() bool {
		code, text := askAs(t, tokens["vision"], address, http.MethodGet, "/api/v1/jobs/vision-1", "")
		return code == http.StatusOK && strings.Contains(text, "running")
	})
	server.signal(syscall.SIGKILL)
	<-server.ended
	server = serve()
	s.gate(160)
	s.poll("the victim's end", func() bool {
		_, text := askAs(t, tokens["vision"], address, http.MethodGet, "/api/v1/jobs/vision-1", "")
		return strings.Contains(text, "finished")
	})
	<-victim.ended
	server.signal(os.Interrupt)
	server.wait(0)
	if _, err := os.Stat(s.path("served", "doors")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sockets are left: %v", err)
	}
	s.poll("no process of the group", func() bool { return len(s.ofUser(vision)) == 0 })
}

// targets lists what belongs to others: all of the job server's directory and its processes, except the speech group's own.
func (s *site) targets(vision int) (all []string) {
	s.t.Helper()
	for _, root := range []string{s.path("served"), s.path("groups.yaml"), s.path("vision.token")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // files come and go
			}
			if d.IsDir() && path == s.path("served", "groups", "speech") {
				return fs.SkipDir
			}
			if len(all) > 150 && filepath.Base(path) != "mine" {
				return nil
			}
			switch {
			case d.IsDir():
				all = append(all, "folder "+path)
			case d.Type().IsRegular() && d.Name() != "speech.yaml" && d.Name() != "groups.yaml":
				all = append(all, "file "+path)
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, pid := range append(s.ofUser(vision), os.Getpid()) {
		all = append(all, fmt.Sprint("process ", pid))
	}
	return all
}

// ofUser returns a user's processes.
func (s *site) ofUser(uid int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		info, err := os.Stat(dir)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// askAs makes a request with a token, and optionally with the header by which a gate names the user it forwards for.
func askAs(t *testing.T, token access.Token, address, method, path, holder string, body ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(strings.Join(body, "")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", token.Bearer())
	if holder != "" {
		r.Header.Set("Tierml-Holder", holder)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	_ = response.Body.Close()
	return response.StatusCode, string(text)
}
