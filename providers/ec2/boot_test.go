package ec2

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
	"github.com/tierml/tierml/providers/boot"
	"github.com/tierml/tierml/providers/boot/boottest"
	"github.com/tierml/tierml/tiers/node"
)

// What a machine of a real cloud does first: it fetches exactly the intended program, runs it, restarts it if it was given up while alive,
// and powers off when there is nothing more to do, or nothing could be done.
func TestBootScript(t *testing.T) {
	boottest.Need(t, "bash", "curl", "sha256sum")
	const program = `#!/bin/bash
echo "$1 in $AWS_REGION, key in $TIERML_KEY_FILE" >>ran
[ "$TIERML_POWER_OFF +$TIERML_POWER_OFF_AFTER" = 'off +30' ] || exit 1
[ $(wc -l <ran) = 2 ] || exit 4
`
	sum := sha256.Sum256([]byte(program))
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(program)) }))
	defer served.Close()
	u := node.UserData{Controller: "10.0.0.5:7071", Token: "a.b.c", Job: "real-1", Listen: "0.0.0.0:0", Authority: strings.Repeat("0a", 32)}
	script := func(url, sum string) string {
		at := &config.Installation{Region: "us-west-2", Program: config.Program{URL: url, SHA256: sum}}
		return boot.Machine(Provider{}.Boot(at), u.Encode(), sum, 30)
	}
	for name, c := range map[string]struct{ sha, ran string }{
		"the program":     {hex.EncodeToString(sum[:]), "agent in us-west-2, key in HOME/agent.key\nagent in us-west-2, key in HOME/agent.key\n"},
		"another program": {strings.Repeat("00", 32), ""},
	} {
		t.Run(name, func(t *testing.T) {
			script := script(served.URL+"/tierml", c.sha)
			if got, err := node.DecodeUserData(script); err != nil || got != u {
				t.Errorf("the agent reads %+v, %v", got, err)
			}
			home, tools := t.TempDir(), t.TempDir()
			for tool, text := range map[string]string{"sleep": "#!/bin/bash\n", "off": "#!/bin/bash\necho \"$@\" >>" + filepath.Join(home, "off") + "\n"} {
				if err := os.WriteFile(filepath.Join(tools, tool), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "TIERML_HOME=" + home, "TIERML_POWER_OFF=off"}
			out, err := cmd.CombinedOutput()
			if (err != nil) != (c.ran == "") {
				t.Errorf("%v\n%s", err, out)
			}
			ran, _ := os.ReadFile(filepath.Join(home, "ran"))
			if got := strings.ReplaceAll(string(ran), home, "HOME"); got != c.ran {
				t.Errorf("it ran %q; want %q\n%s", got, c.ran, out)
			}
			if off, err := os.ReadFile(filepath.Join(home, "off")); string(off) != "+30\nnow\n" {
				t.Errorf("powered off at %q, %v: want after 30 minutes, whatever comes, and at the end", off, err)
			}
		})
	}
	fromStore := script("s3://bucket/tierml", strings.Repeat("00", 32))
	if !strings.Contains(fromStore, "aws s3 cp --region 'us-west-2' --no-progress 's3://bucket/tierml' tierml.new") {
		t.Errorf("%s", fromStore)
	}
	if len(fromStore) > 2<<10 {
		t.Errorf("%d bytes: a provider takes 16 KiB, and scripts grow", len(fromStore))
	}
}
