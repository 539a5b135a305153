package boot_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/marked"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/boot/boottest"
)

const metadata = "169.254.169.254:80"

// TestMain also plays the program of TestClosedMachine's machine, and its metadata service.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "agent":
		agent()
	case len(os.Args) > 1 && os.Args[1] == "serve":
		fmt.Println(http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })))
	default:
		os.Exit(m.Run())
	}
}

// agent reports whether it and its children reach the metadata service.
func agent() {
	ask := func(who string, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
		conn, err := dial(context.Background(), "tcp4", metadata)
		if err != nil {
			fmt.Println(who+":", err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		fmt.Println(who+":", strings.TrimSpace(line), err)
	}
	if len(os.Args) > 2 { // a child of the agent
		ask("program", (&net.Dialer{}).DialContext)
		ask("marking program", marked.Dial)
		agent := os.Args[2]
		_, err := os.Open("/proc/" + agent + "/mem")
		fmt.Println("memory:", err)
		_, err = os.ReadFile("/proc/" + agent + "/environ")
		fmt.Println("environment:", err)
		fmt.Println("binary:", os.WriteFile("../tierml", nil, 0o755))
		fmt.Println("home:", os.WriteFile("mine", nil, 0o600))
		rule, _ := exec.Command("ip", "rule", "del", "pref", "90").CombinedOutput()
		fmt.Println("rule:", strings.TrimSpace(string(rule)))
		return
	}
	if err := marked.KeepRight(); err != nil {
		fmt.Println("agent:", err)
	}
	ask("agent", marked.Dial)
	off := strings.Fields(os.Getenv("TIERML_POWER_OFF"))
	fmt.Println("timer:", exec.Command(off[0], append(off[1:], "+30")...).Run())
	self, _ := os.Executable()
	out, err := exec.Command(self, "agent", fmt.Sprint(os.Getpid())).CombinedOutput()
	fmt.Print(string(out))
	fmt.Println("exit:", err)
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile("../../off"); strings.Count(string(text), "+30") == 2 {
			fmt.Println("postponed")
			return
		}
	}
}

// Processes of the agent's user on a machine do not reach the metadata service, and cannot mark connections, change rules, or read the
// agent's memory. The agent reaches it, and the power-off timer is postponed.
func TestClosedMachine(t *testing.T) {
	boottest.Need(t, "bash", "sha256sum", "setpriv", "ip", "unshare", "nsenter", "install")
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces and another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	script := boot.Machine(providers.Boot{Fetch: "cp " + self + " tierml.new", Environment: "A=b", Closed: providers.ButAgent}, "", hex.EncodeToString(sum[:]), 30)
	base, err := os.MkdirTemp("", "tierml-closed-") // which another user can traverse, unlike a test's own
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	home, tools := filepath.Join(base, "home"), filepath.Join(base, "tools")
	for name, text := range map[string]string{
		"id": "#!/bin/sh\necho 60517\n", "sleep": "#!/bin/sh\nexec " + must(exec.LookPath("sleep")) + " 0.05\n",
		"off":     "#!/bin/sh\necho \"$@\" >>" + base + "/off; chmod a+r " + base + "/off\n",
		"machine": script,
		"world": `set -eu
ip link set lo up
coproc peer { exec unshare --net ` + self + ` serve; }
peer=$peer_PID
trap 'kill $peer' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
ip link add m0 type veth peer name m1 netns $peer
ip address add 10.9.0.1/24 dev m0
ip link set m0 up
nsenter --target $peer --net bash -c 'ip link set lo up; ip address add 169.254.169.254/32 dev lo; ip address add 10.9.0.2/24 dev m1; ip link set m1 up'
ip route add default via 10.9.0.2
PATH=` + tools + `:$PATH bash ` + tools + `/machine`,
	} {
		if err := os.MkdirAll(tools, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "bash", filepath.Join(tools, "world"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIERML_HOME=" + home, "TIERML_POWER_OFF=off"}
	text, err := cmd.CombinedOutput()
	out := string(text)
	if strings.Contains(out, "peration not supported") {
		t.Skipf("this kernel lacks network namespaces, veth or routing rules, or this test is built with cgo: %s", out)
	}
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"agent: HTTP/1.0 200 OK <nil>", "program: dial tcp4 169.254.169.254:80: connect: permission denied", "marking program: dial tcp4 169.254.169.254:80: setsockopt: operation not permitted",
		"memory: open /proc/", "environment: open /proc/", "binary: open ../tierml: permission denied", "home: <nil>", "rule: RTNETLINK answers: Operation not permitted",
		"timer: <nil>", "exit: <nil>", "postponed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said", want)
		}
	}
	if off, _ := os.ReadFile(filepath.Join(base, "off")); !strings.HasSuffix(string(off), "now\n") {
		t.Errorf("powered off at %q", off)
	}
	if t.Failed() {
		t.Log(out)
	}
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}
