# What each session begins with.
set -euo pipefail
status=0
trap 'status=$?; echo "failed in line $LINENO: $BASH_COMMAND" >&2; finish' ERR
# Ends what was started in the background, in order, and waits for it.
finish() {
  trap - ERR
  set +e
  local pid
  for pid in $(jobs -p); do kill "$pid" 2>/dev/null; done
  wait
  exit "$status"
}
# serve COMMAND...: in the background, until it has printed an address.
serve() {
  rm -f served.*.log
  "$@" >"served.$#.log" 2>&1 &
  served=$!
  until_true grep -q 'http://' "served.$#.log"
}
# unserve ends what was served last.
unserve() {
  rm -f served.*.log
  kill "$served"
  wait "$served" || true
}
# until_true COMMAND...: asks again for two minutes.
until_true() {
  local n
  for ((n = 0; n < 600; n++)); do
    if "$@" 2>/dev/null; then return; fi
    sleep 0.2
  done
  echo "in vain: $*" >&2
  tail -n 20 served.*.log >&2 || true
  return 1
}
# free_port prints a port on which nobody listens.
free_port() {
  local port
  for ((;;)); do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}
# python: the first that has boto3; Debian's packages are for its own.
python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import boto3' 2>/dev/null; then
      "$python" -
      return
    fi
  done
  echo "no python3 has boto3: make sessions" >&2
  return 1
}
# played NAME: a program that stands for one that cannot be here; its text is read from the standard input.
played() {
  { echo '#!/usr/bin/env bash'; cat; } >"bin/$1"
  chmod +x "bin/$1"
}
