#: TABLES 2
#: TYPE tierml run sweep.yaml => tierml run -y --plain sweep.yaml >run.log 2>&1 & until_true grep -q 'task-0 runs' run.log
#: TYPE tierml events sweep => until_true noticed
#: TYPE tierml exec sweep --task 0 -- ls => until_true tierml exec sweep --task 0 -- ls
#: TYPE tierml ssh sweep => until_true tierml ssh sweep
#: TYPE tierml forward sweep => until_true tierml forward sweep --task 0
#: TYPE tierml plan examples/programs/gpu.yaml => tierml plan examples/programs/gpu.yaml | grep "^  GPUs "
#: TYPE tierml run --server URL sweep.yaml => submitted
export THE_KEY=hush-b1946ac92492d234
port=$(free_port)
mkdir finetune
cat >finetune/train.sh <<'END'
#!/usr/bin/env bash
[ ${#KEY} = 21 ] || exit 9
at=$(cat "$TIERML_STATE/at" 2>/dev/null || echo 0)
while [ "$at" -lt "$UNTIL" ]; do
  at=$((at + 1))
  echo "$at" >"$TIERML_STATE/at.tmp"
  mv "$TIERML_STATE/at.tmp" "$TIERML_STATE/at"
  echo "step $at"
  sleep 0.2
done
END
noticed() { tierml events sweep | grep 'eviction notice' >/dev/null; }
# The same job on a job server of this host.
submitted() {
  serve tierml server --listen localhost:$port --directory work --allow programs
  tierml run -y --detach --server http://localhost:$port --token-file work/token sweep.yaml
  local at="--server http://localhost:$port --token-file work/token"
  until_true eval "tierml state sweep $at -o json | jq -e 'any(.state_bytes > 0)'"
  # Its machines are processes of this host, whoever bought them.
  test "$(tierml exec sweep $at --task 0 -- bash -c 'echo $TIERML_TASK of $TIERML_TASKS, ${KEY-no secret}')" = '0 of 4, no secret'
  echo 'echo $TIERML_RUN' | tierml ssh sweep $at --task 0 | grep '^sweep-1'
  tierml forward sweep $at --task 0 | grep 'its port 6006 is at'
  tierml state sweep $at --into elsewhere
  test -s elsewhere/task-0/at || test -s elsewhere/task-1/at
  tierml stop sweep $at --task 3
  tierml stop sweep $at
  tierml ps $at | grep stopped >/dev/null
  unserve
}
#: AFTER
wait
# Job words of the table that the job does not have.
sed -e '/^tasks:/d' -e 's/^run:/image: python:3.12-slim\nrun:/' sweep.yaml >words.yaml
tierml plan words.yaml >words
grep -q '^  Program  .*one on 2 machines' words
grep -q '^  Image  .*python:3.12-slim' words
grep -q '1 cancelled' run.log
test -s results/task-0/at
tierml logs sweep | grep 'step 5' >/dev/null
# The secret is in one file, of the job server's stopped job, which only its user can read.
if grep -rl "$THE_KEY" . | grep -v -e session.sh -e '/secrets.json$'; then
  echo 'the secret is in these files' >&2
  false
fi
test "$(stat -c %a work/runs/sweep-1/secrets.json)" = 600
tierml state sweep | grep cancelled >/dev/null
