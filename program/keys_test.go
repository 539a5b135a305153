package program

import (
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/blob"
)

// A program does not learn the address of the machine's metadata, and has the run's credentials only if its job requests them, at an
// address that requires a secret of the program's.
func TestCloudAccess(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: apt-get install curl")
	}
	for _, access := range []bool{false, true} {
		s := &site{t: t, dir: t.TempDir(), store: filepath.Join(t.TempDir(), "store")}
		m, err := New(Config{Dir: s.dir, Report: s.report, Log: slog.New(slog.DiscardHandler),
			Environ: []string{"PATH=" + defaultPath(t), "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1/x", "GCE_METADATA_HOST=127.0.0.1:1"},
			Keys: func() (blob.Keys, error) {
				return blob.Keys{AccessKeyID: "ASIA1", SecretAccessKey: "s", SessionToken: "t"}, nil
			},
			Spec: Spec{Store: s.store, CloudAccess: access, Run: `env >seen
[ -z "${AWS_CONTAINER_CREDENTIALS_FULL_URI:-}" ] || curl -fsS -H "Authorization: $AWS_CONTAINER_AUTHORIZATION_TOKEN" "$AWS_CONTAINER_CREDENTIALS_FULL_URI" >keys
echo >ready; sleep 1000`}})
		if err != nil {
			t.Fatal(err)
		}
		s.Machine = m
		s.begin(Start{Attempt: 1})
		s.appears("ready")
		seen := s.appears("seen")
		if strings.Contains(seen, "127.0.0.1:1") || !strings.Contains(seen, "AWS_EC2_METADATA_DISABLED=true") || strings.Contains(seen, "AWS_CONTAINER") != access {
			t.Errorf("access %v: the program saw %s", access, seen)
		}
		if access && !strings.Contains(s.appears("keys"), `"AccessKeyId":"ASIA1"`) {
			t.Error("the program got no keys")
		}
		if status, body := get(t, m.notices.url+"/credentials"); status != http.StatusForbidden || strings.Contains(body, "ASIA1") {
			t.Errorf("access %v: without the secret: %d %s", access, status, body)
		}
		s.Stop(0, false)
		s.exit(1)
		m.Close()
	}
}

// The program's environment makes large copies bypass the caches if it has state, but the machine's and the job's own settings stay.
func TestTunables(t *testing.T) {
	const ours, theirs = "GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=8388608", "GLIBC_TUNABLES=glibc.malloc.check=0"
	for _, c := range []struct {
		state, machine string
		job            map[string]string
		want           string
	}{
		{"", "", nil, ""},
		{"state", "", nil, ours},
		{"state", theirs, nil, theirs},
		{"state", "", map[string]string{"GLIBC_TUNABLES": ""}, "GLIBC_TUNABLES="},
	} {
		m, err := New(Config{Dir: t.TempDir(), Report: func(Event) {}, Log: slog.New(slog.DiscardHandler), Environ: []string{c.machine},
			Spec: Spec{Store: t.TempDir(), State: c.state, Envs: c.job, Run: "true"}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, one := range (&attempt{m: m}).environment(nil) {
			if strings.HasPrefix(one, "GLIBC_TUNABLES=") {
				got = one
			}
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
		m.Close()
	}
}

func defaultPath(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(bash) + ":/usr/bin:/bin"
}
