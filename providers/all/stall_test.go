package all

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/boot/boottest"
)

// A machine whose boot stalls has a timer that ends it, set before its first request, and killing the script does not stop the timer.
func TestABootThatStalls(t *testing.T) {
	boottest.Need(t, "bash", "curl")
	asked := make(chan bool, 100)
	served := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- true
		<-r.Context().Done() // never an answer
	}))
	defer served.Close()
	program := config.Program{URL: served.URL + "/tierml", SHA256: strings.Repeat("00", 32)}
	for _, p := range providers.All() {
		name, boots := p.Facts().Name, p.Boot(&config.Installation{Region: "us-west-2", Program: program})
		if boots.Fetch == "" {
			continue // its machines run an image with the program in it, and no script
		}
		script := boot.Machine(boots, "", program.SHA256, 17)
		home := t.TempDir()
		off := filepath.Join(home, "off")
		if err := os.WriteFile(filepath.Join(home, "power"), []byte("#!/bin/sh\necho \"$@\" >>"+off+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "bash", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIERML_HOME=" + home, "TIERML_POWER_OFF=" + filepath.Join(home, "power")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing was asked for", name)
		}
		if set, err := os.ReadFile(off); string(set) != "+17\n" {
			t.Errorf("%s: while it waits for the program it is to be powered off at %q, %v", name, set, err)
		}
		cancel()
		_ = cmd.Wait()
	}
}

// Every fetch on a machine has a time limit.
func TestFetchesHaveLimits(t *testing.T) {
	fetches := 0
	for _, store := range []string{"https", "s3", "gs"} {
		program := config.Program{URL: store + "://bucket/program", SHA256: strings.Repeat("00", 32)}
		cloud := map[string]string{"gs": "gce", "s3": "ec2", "https": "ec2"}[store]
		p, err := providers.Named(cloud)
		if err != nil {
			t.Fatal(err)
		}
		machine := boot.Machine(p.Boot(&config.Installation{Region: "us-west-2", Program: program}), "", program.SHA256, 30)
		for _, script := range []string{machine, serverScript(t, cloud, program.URL, program.SHA256, "x\n", "00")} {
			for _, call := range strings.Split(script, "curl ")[1:] {
				fetches++
				for _, limit := range []string{"--connect-timeout ", "--max-time ", "--speed-time ", "--retry-max-time "} {
					if !strings.Contains(call, limit) {
						t.Errorf("%s: curl without %s: %s", store, limit, call)
					}
				}
			}
			for before := range strings.SplitSeq(script, "aws s3 cp") {
				if rest := script[len(before):]; strings.HasPrefix(rest, "aws s3 cp") && !strings.HasSuffix(before, "timeout 600 ") {
					t.Errorf("%s: a copy without a limit", store)
				}
				break
			}
		}
	}
	if fetches < 6 {
		t.Errorf("%d fetches were looked at", fetches)
	}
}
