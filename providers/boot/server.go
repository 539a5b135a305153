package boot

import (
	"fmt"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/terraform"
)

// Server returns the first script of a job server's machine: it fetches the program, compares it with its SHA-256, and runs `tierml server`
// as a service next to a timer that ends leaks, as units describe. Settings are those of the installation, which allow the endpoints that
// it names. It contains only the SHA-256 of the accepted token: it has no secrets.
func Server(at *config.Installation, b providers.Boot, settings string, allow []string, units []terraform.Unit, tokenSHA256 string) string {
	arguments := fmt.Sprintf("--listen localhost:%d --set accept-sha256=%s", at.Controller.Port, tokenSHA256)
	for _, address := range allow {
		arguments += " --allow '" + address + "'"
	}
	var services strings.Builder
	for _, u := range units {
		text := strings.Replace(u.Text, "--directory /var/lib/tierml\n", "--directory /var/lib/tierml "+arguments+"\n", 1)
		fmt.Fprintf(&services, "cat >/etc/systemd/system/%s <<'END_OF_UNIT'\n%s\nEND_OF_UNIT\n", u.Name, text)
	}
	return strings.NewReplacer("<fetch>", b.Fetch, "<sha256>", at.Program.SHA256, "<settings>\n", settings, "<arguments>", arguments, "<environment>", b.Environment,
		"<services>\n", services.String()).Replace(serverScript)
}

// The script runs at each start of the machine, on EC2 at the first, and repeats only what is missing. TIERML_HOME is for a machine that is
// a process of this host: there is no systemd to keep the service then.
const serverScript = `#!/bin/bash
# Makes this machine a TierML job server.
set -euo pipefail
home=${TIERML_HOME:-/var/lib/tierml}
program=${TIERML_HOME:-/usr/local/bin}/tierml
if [ -z "${TIERML_HOME:-}" ]; then
  shutdown --no-wall -P +30 # unless it gets to the end
  id -u tierml >/dev/null 2>&1 || useradd --system --create-home --home-dir "$home" --shell /sbin/nologin tierml
  install -d -o tierml -g tierml -m 0750 "$home" "$home/tmp"
fi
mkdir -p "$home"
fetch() {
  <fetch>
}
is_there() { echo "<sha256>  $1" | sha256sum --check --strict --status; }
if ! is_there "$program"; then
  work=$(mktemp -d)
  cd "$work"
  for pause in 1 5 20 60 -; do
    if fetch && is_there tierml.new; then break; fi
    if [ $pause = - ]; then echo 'the program could not be fetched, or is not the one that was meant' >&2; exit 1; fi
    sleep $pause
  done
  chmod 0755 tierml.new
  mv tierml.new "$program"
  cd "$home"
  rmdir "$work"
fi
export <environment>
if [ -n "${TIERML_HOME:-}" ]; then
  exec "$program" server --directory "$home" <arguments>
fi
mkdir -p /etc/tierml
cat >/etc/tierml/installation.yaml <<'END_OF_SETTINGS'
<settings>
END_OF_SETTINGS
<services>
systemctl daemon-reload
systemctl enable --now tierml-server tierml-expired.timer
shutdown -c
`
