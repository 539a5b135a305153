// Package boot has the scripts that machines of a run, and a job server's machine, run at their first boot. How the program is fetched is
// up to the provider; the rest is the same everywhere.
package boot

import (
	"strconv"
	"strings"

	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/tiers/node"
)

// Machine returns the first script of a run's machine. It starts the agent on a machine without any of our software, and powers the machine
// off when the agent ends for any reason: a machine without one only costs money. First it sets a timer that powers the machine off after
// this many minutes, whatever hangs; the agent postpones it while it hears its controller.
//
// Data is the agent's user data, if a comment of the script holds it; otherwise empty.
func Machine(b providers.Boot, data, sha256 string, minutes int) string {
	if data != "" {
		data = node.ScriptMark + data + "\n"
	}
	closed, agent := "", "./tierml agent"
	switch b.Closed {
	case providers.ButAgent:
		closed, agent = closedScript, closedAgent
	case providers.ButRoot:
		closed = strings.ReplaceAll(refuse, "<whom>", "uidrange 1-4294967294") + "chmod 0711 \"$TIERML_HOME\"\n"
	}
	script := strings.NewReplacer("<closed>\n", closed, "<agent>", agent).Replace(machineScript)
	return strings.NewReplacer("<user data>\n", data, "<fetch>", b.Fetch, "<sha256>", sha256, "<environment>", b.Environment,
		"<minutes>", strconv.Itoa(minutes), "<home>", providers.Home).Replace(script)
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
<closed>
code=4
while [ $code = 4 ]; do # given up while it lived: it joins again, empty
  code=0
  <agent> || code=$?
done
exit $code
`

// refuse makes the kernel refuse the metadata service to some users.
const refuse = `for to in 169.254.169.254 fd00:ec2::254 fd20:ce::254; do
  case $to in *:*) family=-6;; *) family=-4;; esac
  ip $family rule add pref 90 to $to ipproto tcp <whom> prohibit || [ $family = -6 ] # which may be off
done
`

// closedScript creates the agent's user, whom a routing rule refuses the metadata service, except for connections that the agent marks.
// DNS, which Compute Engine serves at the same address, is not TCP. The agent cannot postpone the power-off timer as this user: it touches
// a file instead.
var closedScript = `id -u tierml-agent >/dev/null 2>&1 || useradd --system --no-create-home --home-dir "$TIERML_HOME/home" --shell /bin/bash tierml-agent
uid=$(id -u tierml-agent) gid=$(id -g tierml-agent)
` + strings.ReplaceAll(refuse, "<whom>", "uidrange $uid-$uid fwmark 0/0xffffffff") + `chmod 0711 "$TIERML_HOME"
install -d -o $uid -g $gid -m 0700 home
export HOME="$TIERML_HOME/home" TIERML_KEY_FILE="$TIERML_HOME/home/agent.key" TIERML_MARK=1
cd home
seen=$(mktemp)
while sleep 60; do
  if [ alive -nt "$seen" ]; then touch "$seen"; timeout 60 $TIERML_POWER_OFF +$TIERML_POWER_OFF_AFTER || :; fi
done &
trap "kill $! || :; $TIERML_POWER_OFF now" EXIT
`

const closedAgent = `env "TIERML_POWER_OFF=bash -c >alive" setpriv --reuid $uid --regid $gid --clear-groups --inh-caps +net_admin --ambient-caps +net_admin ../tierml agent`
