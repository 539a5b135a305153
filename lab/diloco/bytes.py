"""A deterministic LeNet through sixty rounds, on 4, 3 and 1 machines and through their events: python bytes.py TIERML FOLDER

It prints each model's SHA-256, and fails if they differ. DIGITS is the data's folder.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import jobs

ROUNDS, EVERY = 60, 10

# Machines, and the events after that many rounds.
RUNS = (
    ("calm", 4, ()),
    ("disturbed", 4, ((10, "evict oldest"), (25, "kill oldest"), (40, "evict all"), (50, "controller"))),
    ("three", 3, ((15, "evict oldest"), (35, "kill newest"))),
    ("one", 1, ((20, "evict all"), (40, "controller"))),
)


def follow(tierml, folder, job, events):
    """Runs a job through events; returns its directory."""
    name = os.path.splitext(os.path.basename(job))[0]
    directory = os.path.join(folder, "runs", name + "-1")

    def start(*words):
        log = open(os.path.join(folder, name + ".log"), "ab")
        return subprocess.Popen([tierml, "run", "-y", "--quiet", *words], cwd=folder, stdout=log, stderr=log)

    def done():
        try:
            with open(os.path.join(directory, "journal.jsonl")) as f:
                return max((e["clock"] for e in map(json.loads, f.read().splitlines()) if e["kind"] == "clock"), default=0)
        except (FileNotFoundError, ValueError):  # does not exist yet, or ends in the middle of a line
            return 0

    run = start(job)
    for clock, event in events:
        while done() < clock:
            if run.poll() is not None:
                sys.exit(f"{name} ends before round {clock}: see {folder}/{name}.log")
            time.sleep(0.05)
        print(f"  {name}: {event} after round {done()}", flush=True)
        if event == "controller":
            run.send_signal(signal.SIGKILL)
            run.wait()
            run = start("--resume", directory)
            continue
        with open(os.path.join(directory, "logs", "controller.log")) as f:
            endpoint = re.findall(r"endpoint=(http://\S+)", f.read())[-1]
        body = json.dumps({"step": event}).encode()
        urllib.request.urlopen(urllib.request.Request(endpoint + "/_control/do", body, {"Content-Type": "application/json"})).close()
    if run.wait():
        sys.exit(f"{name} has failed: see {folder}/{name}.log")
    return directory


def main():
    binary, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    os.environ["DIGITS"] = os.path.abspath(os.environ["DIGITS"])
    sums = set()
    for name, machines, events in RUNS:
        local = f"  notice: 10s\n  capacity: {{c3.large: {machines}}}\n"
        job = jobs.write(folder, name, "train.py", ROUNDS * EVERY, {"TASK": "digits", "SEED": 1}, every=EVERY, deterministic=True, local=local)
        with open(os.path.join(follow(binary, folder, job, events), "model.safetensors"), "rb") as f:
            sums.add(digest := hashlib.sha256(f.read()).hexdigest())
        print(f"{digest}  {name}, {machines} machines", flush=True)
    if len(sums) > 1:
        sys.exit("they differ")


if __name__ == "__main__":
    main()
