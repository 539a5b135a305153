// Package boot has the scripts that machines of a run, and a job server's machine, run at their first boot. How the program is
// fetched is the provider's business; what happens then is the same everywhere.
package boot

import (
	"strconv"
	"strings"

	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/tiers/node"
)

// Machine returns the first script of a run's machine. It starts the agent on a machine that has nothing of ours yet, and powers the
// machine off when the agent has ended, however that comes: a machine without one only costs money. Before anything else it sets a
// timer that powers the machine off after this many minutes, whatever hangs; the agent puts it off while it hears its controller.
//
// Data is the agent's user data, where a comment of the script holds it; else empty.
func Machine(b providers.Boot, data, sha256 string, minutes int) string {
	if data != "" {
		data = node.ScriptMark + data + "\n"
	}
	return strings.NewReplacer("<user data>\n", data, "<fetch>", b.Fetch, "<sha256>", sha256, "<environment>", b.Environment,
		"<minutes>", strconv.Itoa(minutes), "<home>", providers.Home).Replace(machineScript)
}

// CurlCommand fails instead of waiting for an address that does not answer, or that stalls.
const CurlCommand = "curl --fail --silent --show-error --connect-timeout 10 --speed-limit 1024 --speed-time 30 --max-time 600 --retry 5 --retry-max-time 120"

// Curl fetches the program from an address.
func Curl(address string) string {
	return CurlCommand + " --location --output tierml.new '" + address + "'"
}

const machineScript = `#!/bin/bash
<user data>
export TIERML_POWER_OFF="${TIERML_POWER_OFF:-shutdown --no-wall -P}" TIERML_POWER_OFF_AFTER=<minutes>
trap '$TIERML_POWER_OFF now' EXIT
set -euo pipefail
timeout 60 $TIERML_POWER_OFF +$TIERML_POWER_OFF_AFTER
umask 077
mkdir -p "${TIERML_HOME:=<home>}"
cd "$TIERML_HOME"
export HOME="$TIERML_HOME" # of programs, too
fetch() {
  <fetch>
}
for pause in 1 5 20 60 -; do
  if fetch && echo '<sha256>  tierml.new' | sha256sum --check --strict; then break; fi
  if [ $pause = - ]; then echo 'the program could not be fetched, or is not the one that was meant' >&2; exit 1; fi
  sleep $pause
done
chmod 0755 tierml.new
mv tierml.new tierml
export <environment> TIERML_KEY_FILE="$TIERML_HOME/agent.key"
code=4
while [ $code = 4 ]; do # given up while it lived: it joins again, empty
  code=0
  ./tierml agent || code=$?
done
exit $code
`
