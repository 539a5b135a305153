package program

import (
	"crypto/rand"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pretended is a fake runtime without containers: it accepts Docker's and Podman's arguments, refuses others, records them, and runs
// everything on this machine.
const pretended = `#!/usr/bin/env bash
set -euo pipefail
echo "$*" >>"${0%/*}/arguments"
case $1 in
ps) exit 0 ;;
image) [ -e "${0%/*}/pulled" ] ;;
pull) touch "${0%/*}/pulled"; echo "pulled $2" ;;
run | exec)
  verb=$1 id= dir=/
  shift
  while [ "${1:0:2}" = -- ]; do
    case $1 in
    --rm | --interactive | --sig-proxy=false) shift; continue ;;
    --env) id=$2 ;;
    --workdir) dir=$2 ;;
    --name | --network | --ipc | --user | --security-opt | --volume | --entrypoint | --gpus | --device) ;;
    *) echo "unknown option $1" >&2; exit 125 ;;
    esac
    shift 2
  done
  shift # image or name
  [ "$verb" = exec ] || set -- bash "$@"
  cd "$dir"
  # As with the real one, the command is nobody's child here, and this process only passes on how it ends.
  env -i PATH="$PATH" IMAGE=own ${id:+"$id"} "$@" <&0 &
  wait $! ;;
*) echo "unknown command $1" >&2; exit 125 ;;
esac
`

// pretend puts a runtime first in the path, and returns a function for its arguments so far.
func pretend(t *testing.T) (arguments func() string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(pretended), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "arguments"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// A program in a container has everything that others have: its folder, setup's results, its variables, state, notices, and an orderly end.
// Another attempt finds the same container.
func testContained(t *testing.T, image, proof string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), store: filepath.Join(t.TempDir(), "store")}
	m, err := New(Config{Dir: s.dir, Report: s.report, Log: slog.New(slog.DiscardHandler), Environ: append(os.Environ(), "OF_THE_HOST=1"), Spec: Spec{
		Store: s.store, State: "state", Image: image, Line: `step (\d+)`,
		Envs:  map[string]string{"WORDS": "two 'words'\nand a line"},
		Setup: proof + "; echo \"setup $WORDS\" >prepared; echo once >>setups",
		Run: `test -z "${OF_THE_HOST-}"; cat prepared; echo "it is $TOKEN"; at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
stop=; trap 'stop=1' TERM
echo "from $at" >began.$TIERML_ATTEMPT
while [ -z "$stop" ]; do at=$((at + 1)); echo $at >"$TIERML_STATE/at.tmp"; mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at" || :; echo "step $at"; sleep 0.02 || :; done
grep -q eviction "$TIERML_NOTICE_FILE" 2>/dev/null || [[ $(<"$TIERML_NOTICE_FILE") == *stop* ]]
exit 7`,
		OnNotice: "echo hook >hooked",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Machine = m
	t.Cleanup(m.Close)
	if err := s.Start(Start{Attempt: 1, Key: "rank-0", Ranks: 1, Secrets: map[string]string{"TOKEN": canary}}); err != nil {
		t.Fatal(err)
	}
	s.appears("began.1")
	wait(s, func(e Advanced) bool { return e.Step >= 3 })

	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v %v", lines, err)
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), canary) {
			t.Errorf("%s is %q", name, text)
		}
	}
	entered, err := exec.Command("bash", filepath.Join(s.dir, EnterScript), "bash", "-c", `pwd; echo "$WORDS"; echo "${TOKEN-none}"; exit 3`).CombinedOutput()
	if want := filepath.Join(s.config.Dir, "work") + "\ntwo 'words'\nand a line\nnone\n"; string(entered) != want || err == nil || err.Error() != "exit status 3" {
		t.Errorf("in the container: %q, %v", entered, err)
	}

	s.Stop(20*time.Second, true)
	if e := s.exit(1); e.Code != 7 || !e.Asked {
		t.Errorf("%+v", e)
	}
	if text := s.log("rank-0", 1); !strings.Contains(text, "setup two 'words'\nand a line\nit is ***\n") {
		t.Errorf("its log is %q", text)
	}
	saved := wait(s, func(e Saved) bool { return e.Final })
	s.begin(Start{Attempt: 2, Resume: saved.Manifest, ResumeDigest: saved.Digest, Secrets: map[string]string{"TOKEN": canary}})
	if got := s.appears("began.2"); got == "from 0\n" {
		t.Error("it began anew")
	}
	wait(s, func(e Advanced) bool { return e.Attempt == 2 && e.Step > saved.Step })
	s.Notice(time.Now().Add(20*time.Second), false)
	if e := s.exit(2); e.Code != 7 || !e.Asked {
		t.Errorf("%+v", e)
	}
	if got := s.appears("hooked") + s.appears("setups"); got != "hook\nonce\n" {
		t.Errorf("%q", got)
	}
	m.Close()
	if n := len(members(noSession, m.last.id)); n > 0 {
		t.Errorf("%d of its processes are left", n)
	}
	if !m.container.over() {
		t.Error("the container is left")
	}
	return s
}

func TestContainer(t *testing.T) {
	arguments := pretend(t)
	testContained(t, "team/train:7", `test "$IMAGE" = own`)
	all := arguments()
	for _, one := range []string{"pull docker.io/team/train:7\n", "--entrypoint bash docker.io/team/train:7 -c ", "--network host", "--volume "} {
		if strings.Count(all, one) != 1 {
			t.Errorf("%q is not once in\n%s", one, all)
		}
	}
	if strings.Contains(all, canary) {
		t.Error("arguments have the secret")
	}
}

// A program that ignores SIGTERM is killed in its container, with its children.
func TestContainerKilled(t *testing.T) {
	pretend(t)
	s := newSite(t, Spec{Image: "a/b", Run: "trap '' TERM; setsid sleep 1000 & echo up >up; while :; do sleep 1; done"})
	s.begin(Start{Attempt: 1})
	s.appears("up")
	s.Stop(500*time.Millisecond, false)
	if e := s.exit(1); e.Code != 137 || !strings.Contains(e.Note, "had not ended") {
		t.Errorf("%+v", e)
	}
	if n := len(members(noSession, s.Machine.last.id)); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// A hook that the runtime has not started yet has no process, but is still waited for.
func TestHookOfASlowRuntime(t *testing.T) {
	now, hook := time.Now(), &process{ended: make(chan struct{})}
	s := &supervisor{attempt: &attempt{}, p: &process{id: rand.Text(), within: &container{}}, hook: hook, ends: true, termed: now,
		end: ending{kind: evicted, deadline: now.Add(time.Minute)}}
	if s.over(now, true) {
		t.Error("the hook is not waited for")
	}
	close(hook.ended)
	if !s.over(now, true) {
		t.Error("an ended hook is waited for")
	}
}

func TestNoRuntime(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho Cannot connect to the Docker daemon. >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	s := newSite(t, Spec{Run: "true", Image: "python:3.12"})
	if err := s.Start(Start{Attempt: 1, Key: "rank-0"}); err != nil {
		t.Fatal(err)
	}
	e := s.exit(1)
	if want := "docker does not work: Cannot connect to the Docker daemon., podman is not installed"; e.Phase != SettingUp || !strings.Contains(e.Note, want) {
		t.Errorf("%+v", e)
	}
}

func TestQualified(t *testing.T) {
	for image, want := range map[string]string{"python:3.12": "docker.io/library/python:3.12", "team/train": "docker.io/team/train", "localhost/a": "localhost/a",
		"ghcr.io/team/train:7": "ghcr.io/team/train:7", "host:5000/a": "host:5000/a"} {
		if got := qualified(image); got != want {
			t.Errorf("%s is %s, want %s", image, got, want)
		}
	}
}

// TestPodman runs programs in real containers of an image made of this host's bash: make test-containers.
func TestPodman(t *testing.T) {
	if os.Getenv("TIERML_CONTAINERS") == "" {
		t.Skip("it needs Podman or Docker: make test-containers")
	}
	program, err := Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root, image := t.TempDir(), "localhost/tierml-test:1"
	for _, file := range hostFiles(t, "bash", "cat", "mv", "sleep", "grep", "touch") {
		to := filepath.Join(root, file)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bash", "-c", `tar -C "$1" -c . | "$2" import - "$3"`, "import", root, program, image).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(program, "rmi", "--force", image).Run() })
	// This host's other programs are not there, and files next to the workdir stay for the next attempt.
	testContained(t, image, "test ! -e /usr/bin/python3; test ! -e /usr/bin/make; test ! -e /left; touch /left")
	if left, err := exec.Command(program, "ps", "--all", "--quiet", "--filter", "name=tierml-").Output(); err != nil || len(left) > 0 {
		t.Errorf("containers are left: %s, %v", left, err)
	}
}

// hostFiles are programs of this host, with the libraries that they need.
func hostFiles(t *testing.T, programs ...string) (files []string) {
	t.Helper()
	for _, name := range programs {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, "/usr/bin/"+name)
		out, err := exec.Command("ldd", at).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(out)) {
			if strings.HasPrefix(word, "/") {
				files = append(files, word)
			}
		}
	}
	return files
}
