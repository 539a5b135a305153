package all

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/boot/boottest"
	"github.com/tierml/tierml/terraform"
)

// serverScript returns the boot script of a provider's job server.
func serverScript(t *testing.T, cloud, program, sha, settings string, token string) string {
	t.Helper()
	p, err := providers.Named(cloud)
	if err != nil {
		t.Fatal(err)
	}
	at := &config.Installation{Region: "us-west-2", Program: config.Program{URL: program, SHA256: sha}, Controller: config.Controller{Port: 7071}}
	return boot.Server(at, p.Boot(at), settings, []string{"https://store.example:9000", "http://[::1]:80"}, terraform.Units(), token)
}

// What a job server's machine does first: it fetches exactly the intended program, and runs it as a job server that accepts the token with
// the given sum; at a second start it fetches nothing.
func TestServerScript(t *testing.T) {
	boottest.Need(t, "bash", "curl", "sha256sum")
	const program = "#!/bin/bash\necho \"$* in $AWS_REGION\" >>\"$3/ran\"\n"
	sum := sha256.Sum256([]byte(program))
	fetched := 0
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fetched++; _, _ = w.Write([]byte(program)) }))
	defer served.Close()
	token := strings.Repeat("0a", 32)
	begin := func(home, sha string) ([]byte, error) {
		tools := t.TempDir()
		if err := os.WriteFile(filepath.Join(tools, "sleep"), []byte("#!/bin/bash\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "-c", serverScript(t, "ec2", served.URL+"/tierml", sha, "ec2: {}\n", token))
		cmd.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "TIERML_HOME=" + home}
		return cmd.CombinedOutput()
	}
	home := t.TempDir()
	for range 2 {
		if out, err := begin(home, hex.EncodeToString(sum[:])); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	line := "server --directory " + home + " --listen localhost:7071 --set accept-sha256=" + token + " --allow https://store.example:9000 --allow http://[::1]:80 in us-west-2\n"
	if ran, _ := os.ReadFile(filepath.Join(home, "ran")); string(ran) != line+line || fetched != 1 {
		t.Errorf("it ran %q, and fetched %d times; want twice %q", ran, fetched, line)
	}
	other := t.TempDir()
	if out, err := begin(other, strings.Repeat("00", 32)); err == nil || !strings.Contains(string(out), "not the one that was meant") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(other, "tierml")); err == nil {
		t.Error("another program is left where the right one belongs")
	}
}

// On a real machine the program is a service, the one that Terraform makes except for the token that it accepts.
func TestServerScriptMakesAService(t *testing.T) {
	for cloud, fetch := range map[string]string{
		"ec2": "aws s3 cp --region 'us-west-2' --no-progress 's3://bucket/program' tierml.new",
		"gce": "computeMetadata/v1/instance/service-accounts/default/token",
	} {
		store := map[string]string{"ec2": "s3", "gce": "gs"}[cloud]
		script := serverScript(t, cloud, store+"://bucket/program", strings.Repeat("00", 32), cloud+": {region: x}\n", strings.Repeat("0a", 32))
		for _, words := range []string{fetch, "ExecStart=/usr/local/bin/tierml server --directory /var/lib/tierml --listen localhost:7071 --set accept-sha256=0a0a", " --allow 'https://store.example:9000' --allow 'http://[::1]:80'\n",
			"KillMode=process", "systemctl enable --now tierml-server tierml-expired.timer\nshutdown -c\n",
			"shutdown --no-wall -P +30", "ExecStart=/usr/local/bin/tierml down --expired -y /etc/tierml/installation.yaml", "OnUnitActiveSec=", "\n" + cloud + ": {region: x}\nEND_OF_SETTINGS\n", "\nEND_OF_UNIT\n"} {
			if !strings.Contains(script, words) {
				t.Errorf("%q is not in\n%s", words, script)
			}
		}
		if out, err := exec.Command("bash", "-n", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if len(script) > 12<<10 || strings.Contains(script, "<") && strings.Contains(script, "<settings>") {
			t.Errorf("%d bytes: EC2 takes 16 KiB; or something was not filled in:\n%s", len(script), script)
		}
	}
}
