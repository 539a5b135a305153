package sameuser

import (
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
)

// Connections of this user are accepted, over both families of addresses, even many at once.
func TestOwnConnections(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		inner, err := net.Listen("tcp", address)
		if err != nil && address != "127.0.0.1:0" {
			t.Logf("no %s on this host: %v", address, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		l := Listener(inner, slog.New(slog.DiscardHandler))
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "hello")
				_ = conn.Close()
			}
		}()
		answers := make(chan string)
		const crowd = 50
		for range crowd {
			go func() {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					answers <- err.Error()
					return
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				text, _ := io.ReadAll(conn)
				answers <- string(text)
			}()
		}
		for range crowd {
			if got := <-answers; got != "hello" {
				t.Errorf("%s: %q", address, got)
			}
		}
		_ = l.Close()
	}
}

// Listeners for this user close connections of another user before anything is read or sent.
func TestAnotherUser(t *testing.T) {
	if !Supported {
		t.Skip("this system does not tell whose a connection is: run it on Linux")
	}
	bash, err := exec.LookPath("bash")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("only root can become another user, and bash connects as one: run it as root, with bash installed")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	l := Listener(inner, slog.New(slog.NewTextHandler(&log, nil)))
	accepted := make(chan bool)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	port := strconv.Itoa(inner.Addr().(*net.TCPAddr).Port)
	run := func(uid uint32, script string) string {
		cmd := exec.CommandContext(t.Context(), bash, "-c", script)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.Output() // a connection that is reset is an error
		return strings.ReplaceAll(string(out), "\n", " ")
	}
	said := func(uid uint32) string {
		return run(uid, "exec 3<>/dev/tcp/127.0.0.1/"+port+"; echo connected; timeout 60 cat <&3")
	}
	if got := said(65534); got != "connected " {
		t.Errorf("another user gets %q", got)
	}
	if got := said(0); got != "connected hello" {
		t.Errorf("the same user gets %q", got)
	}
	const crowd = 4 * loglimit.LinesAMinute
	if got := run(65534, "for i in {1.."+strconv.Itoa(crowd)+"}; do exec 3<>/dev/tcp/127.0.0.1/"+port+" && read -r -u 3 -t 60 || echo no; done 2>/dev/null"); strings.Count(got, "no") != crowd {
		t.Errorf("of %d connections %d were closed", crowd, strings.Count(got, "no"))
	}
	_ = l.Close()
	<-accepted
	if lines := strings.Count(log.String(), "\n"); lines > 2*loglimit.LinesAMinute {
		t.Errorf("%d lines about %d refusals", lines, crowd+1)
	}
	if !strings.Contains(log.String(), "it is of user 65534, not of user 0") {
		t.Errorf("the log does not tell of the refusal: %s", log.String())
	}
}
