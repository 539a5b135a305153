"""Four machines, one of which is lost every minute, alternately with and without a notice: python elastic.py TIERML FOLDER

Replicas on the tiers and, after them, a data-parallel gang of the same model with tierml.keep, through the same losses at the same times; where TORCHFT
is a python that has torchft-nightly, its DiLoCo and its data-parallel training, too, as gangs with `on_loss: replace`. The environment may have MINUTES
(10), STEP (0.1 s: how long a step takes at least, in all), BOOT (30s: of a machine; real ones take that and more. As steps are equal, the ratio of tiers
and gang is that of their uptimes, and less where machines boot sooner), TASK (points, or characters) and ARMS (tiers gang torchft torchft-ddp).
"""

import datetime
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import jobs

MACHINES, EVERY, RATE, MOMENTUM = 4, 50, 0.7, 0.9
MINUTES, STEP, BOOT = float(os.environ.get("MINUTES") or 10), float(os.environ.get("STEP") or 0.1), os.environ.get("BOOT") or "30s"
LOSSES = ("evict oldest", "kill oldest")
GANG_SAVES = "5m"  # of market time: 5 s here, as long as a round


class Run:
    """A run in progress, as its machines and its programs report it."""

    def __init__(self, tierml, folder, name, job):
        self.directory, self.writes = os.path.join(folder, "runs", name + "-1"), os.path.join(folder, name + ".steps")
        log = open(os.path.join(folder, name + ".log"), "ab")
        self.log, self.process = log.name, subprocess.Popen([tierml, "run", "-y", "--quiet", job], cwd=folder, stdout=log, stderr=log)

    def check(self):
        if self.process.poll() is not None:
            sys.exit(f"the run has ended: see {self.log}")

    def stamps(self):
        """The steps of each process, in order: (time, step, round, replica, ledger)."""
        processes = []
        for name in sorted(glob.glob(self.writes + ".*")):
            with open(name) as f:
                lines = f.read().split("\n")[:-1]  # the rest is incomplete
            if lines:
                processes.append([tuple(json.loads(line)) for line in lines])
        return processes

    def journal(self):
        """The journal's lines, with the wall clock's time."""
        with open(os.path.join(self.directory, "journal.jsonl")) as f:
            lines = [json.loads(line) for line in f.read().split("\n")[:-1]]
        market, wall, speed = re.fullmatch(r"(.*)@(.*)\*(.*)", lines[0]["details"]["clock"]).groups()
        for line in lines:
            line["at"] = seconds(wall) + (seconds(line["t"]) - seconds(market)) / float(speed)
        return lines

    def do(self, event):
        with open(os.path.join(self.directory, "logs", "controller.log")) as f:
            endpoint = re.findall(r"endpoint=(http://\S+)", f.read())[-1]
        body = json.dumps({"step": event}).encode()
        urllib.request.urlopen(urllib.request.Request(endpoint + "/_control/do", body, {"Content-Type": "application/json"})).close()
        return time.time(), event.split()[0]

    def stop(self):
        """Ends the run cleanly, or immediately if that takes long: the machines then end by themselves."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def seconds(text):
    """RFC 3339 to seconds, with any number of decimals."""
    whole, _, decimals = text.rstrip("Z").partition(".")
    return datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp() + float("0." + (decimals or "0"))


def disturb(tierml, folder, arm):
    """Runs an arm through the losses. Returns the run, when all began and when it ended, and the losses: (time, what)."""
    steps = int(3 * 60 * MINUTES / STEP)
    envs = {"ARM": arm, "TASK": os.environ.get("TASK") or "points", "SEED": 1, "STEP": STEP, "STEPS": steps, "REPLICAS": MACHINES, "WRITES": os.path.join(folder, arm + ".steps")}
    peers = {"python": os.environ["TORCHFT"], "coordinator": "peers.py lighthouse"} if arm.startswith("torchft") else {}
    job = jobs.write(folder, arm, "peers.py" if peers else "replica.py", steps, envs, every=EVERY, machines=MACHINES, local="  notice: 10s\n", boot=BOOT,
                     gang="" if arm == "tiers" else GANG_SAVES, **peers)
    run = Run(tierml, folder, arm, job)
    try:
        while len(run.stamps()) < MACHINES:
            run.check()
            time.sleep(0.2)
        began, lost = time.time(), []
        for n in range(round(MINUTES)):
            while time.time() < began + 60 * n + 30:
                run.check()
                time.sleep(0.1)
            lost.append(run.do(LOSSES[n % 2]))
            print(f"  {arm}: {LOSSES[n % 2]}, load {os.getloadavg()[0]:.1f}", flush=True)
        while time.time() < began + 60 * MINUTES:
            run.check()
            time.sleep(0.1)
        ended = time.time()
    finally:
        run.stop()
    return run, began, ended, lost


def rounds_of(process):
    """A replica's rounds: (round, replica, steps, time of the last one)."""
    rounds = []
    for at, step, number, replica, _ in process:
        if not rounds or rounds[-1][:2] != (number, replica) or step <= last:
            rounds.append((number, replica, 0, at))
        rounds[-1] = number, replica, rounds[-1][2] + 1, at
        last = step
    return rounds


def counted(processes):
    """How many steps of each replica the servers have counted, by round, from the ledger as it was when rounds began.

    They step by the mean of what replicas have done, n, weighted by n: of a replica's number n² / N, of N steps in all. So the square root of N is the sum
    of these means' roots.
    """
    ledgers = {stamp[2]: stamp[4] for process in processes for stamp in process if stamp[4] is not None}
    counts, v = {}, [0.0] * MACHINES
    for number in range(1, max(ledgers)):
        if number not in ledgers or number + 1 not in ledgers:
            sys.exit(f"nobody has begun round {number} or the one after it")
        means = []
        for i, (before, after) in enumerate(zip(ledgers[number], ledgers[number + 1])):
            g = ((before - after) / RATE - MOMENTUM * MOMENTUM * v[i]) / (1 + MOMENTUM)
            v[i] = MOMENTUM * v[i] + g
            means.append(max(-g, 0.0))
        root = sum(m ** 0.5 for m in means)
        counts[number] = [round(m ** 0.5 * root) for m in means]
    return counts


def causes(events, begin, end):
    """The event that explains a pause: the first within it, or the last shortly before it."""
    inside = [what for at, what in events if begin < at < end]
    before = [what for at, what in events if begin - 20 < at <= begin]
    return (inside[:1] or before[-1:] or ["otherwise"])[0]


def of_tiers(run, began, ended, lost):
    journal, processes = run.journal(), run.stamps()
    parts, steps, missing = {}, 0, []
    for process in processes:
        for part in rounds_of(process):
            parts.setdefault(part[0], []).append(part)
    for number, counts in counted(processes).items():
        done = parts[number]
        if began <= max(p[3] for p in done) <= ended:
            steps += sum(counts)
            for replica in range(MACHINES):
                mine = [p for p in done if p[1] == replica]
                if sum(p[2] for p in mine) != counts[replica]:
                    missing.append((min((p[3] for p in mine), default=began), sum(p[2] for p in mine) - counts[replica]))
    events = sorted(lost + [(line["at"], "join") for line in journal if line["kind"] == "join" and line["at"] > began])
    pauses = {}
    for process in processes:
        for a, b in zip(process, process[1:]):
            if began < a[0] and b[0] < ended and process[-1][0] > b[0] + 12:  # the others': a machine with a notice has its last steps within 10 s
                pauses.setdefault(causes(events, a[0], b[0]), []).append(b[0] - a[0] - STEP)
    losses = {}
    for at, n in missing:
        losses.setdefault(max((e for e in lost if e[0] < at + 1), default=(0, "otherwise"))[1], []).append(n)
    return steps, losses, pauses


def of_gang(run, began, ended, lost):
    """The same of a gang, of which every step is one of each rank. It stalls from its last new step to the next one, and restarts after a gap."""
    furthest, first, moved, before, losses, pauses = -1, None, began, began, {}, {}
    for at, step in sorted(s[:2] for process in run.stamps() for s in process):
        if at > ended:
            break
        if at >= began:
            first = step if first is None else first
            if at - before > 1 + STEP and step <= furthest:
                losses.setdefault(causes(lost, before, at), []).append(MACHINES * (furthest + 1 - step))
            if step > furthest:
                pauses.setdefault(causes(lost, moved, at), []).append(at - moved - STEP)
                moved = at
            before = at
        furthest = max(furthest, step)
    pauses.setdefault(causes(lost, moved, ended), []).append(ended - moved)
    return MACHINES * (furthest + 1 - (first or 0)), losses, pauses


def of_peers(run, began, ended, lost):
    """The same of torchft's replica groups: a vote decides on the steps since the one before, and a process that ends takes those with it."""
    journal, total, losses, pauses = run.journal(), 0, {}, {}
    events = sorted(lost + [(line["at"], "join") for line in journal if line["kind"] in ("join", "ready") and line["at"] > began])
    for process in run.stamps():
        open_steps = 0
        for at, _, _, vote, _ in process:
            open_steps += 1
            if vote is None:
                continue
            if began <= at <= ended:
                if vote:
                    total += open_steps
                else:
                    losses.setdefault(causes(lost, at, at), []).append(open_steps)
            open_steps = 0
        last = process[-1][0]
        if open_steps and last < ended - 12:
            losses.setdefault(causes(lost, last - 1, last + 1), []).append(open_steps)
        for a, b in zip(process, process[1:]):
            if began < a[0] and b[0] < ended and last > b[0] + 12:
                pauses.setdefault(causes(events, a[0], b[0]), []).append(b[0] - a[0] - STEP)
    return total, losses, pauses


def say(arm, steps, losses, pauses):
    print(f"{arm}: {steps} inner steps of replicas counted in {MINUTES:g} minutes", flush=True)
    for what in ("evict", "kill", "join", "otherwise"):
        p = sorted(pauses.get(what, [0.0]))
        print(f"  {what}: steps lost {losses.get(what, [])}; longest pauses {[round(x, 2) for x in p[-5:]]} s", flush=True)


def main():
    binary, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    os.environ["TEXT"] = os.path.abspath(os.environ.get("TEXT", ""))
    print(f"a machine lost every minute, steps of {STEP} s, rounds of {EVERY} steps, machines boot in {BOOT}, load {os.getloadavg()[0]:.1f}", flush=True)
    steps, arms = {}, (os.environ.get("ARMS") or "tiers gang" + (" torchft torchft-ddp" if os.environ.get("TORCHFT") else "")).split()
    for arm, measure in (("tiers", of_tiers), ("gang", of_gang), ("torchft", of_peers), ("torchft-ddp", of_peers)):
        if arm in arms:
            steps[arm], losses, pauses = measure(*disturb(binary, folder, arm))
            say(arm, steps[arm], losses, pauses)
    if "gang" in steps and "tiers" in steps:
        print(f"tiers / gang: {steps['tiers'] / steps['gang']:.2f} times the steps, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
