"""The cost of a round, five times in turn with its comparison: python cost.py TIERML FOLDER

100 MiB between two workers and one server, compared with a gloo all-reduce between two processes; and the steps of a program with 16 MiB whose steps
take 100 ms, compared with those of the same program without TierML.
"""

import json
import os
import socket
import statistics
import subprocess
import sys

import jobs

TIMES = 5


def gloo(folder, size):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    to = os.path.join(folder, "gloo")
    envs = {**os.environ, "BYTES": str(size), "WRITES": to, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    both = [subprocess.Popen([sys.executable, os.path.join(jobs.HERE, "allreduce.py")], env={**envs, "RANK": str(r)}) for r in range(2)]
    if any([p.wait() for p in both]):
        sys.exit("gloo failed")
    with open(to) as f:
        return float(f.read())


def exchange(tierml, folder, name, size, steps, every, pause):
    """A run's medians, of the slower replica; without a tierml the program's own."""
    to = os.path.join(folder, name)
    envs = {"FLOATS": size // 4, "STEPS": steps, "EVERY": every, "PAUSE": pause, "WRITES": to}
    if tierml is None:
        subprocess.run([sys.executable, os.path.join(jobs.HERE, "exchange.py")], env={**os.environ, **{k: str(v) for k, v in envs.items()}}, check=True)
        with open(to + ".0") as f:
            return json.load(f)
    jobs.run(tierml, folder, name, "exchange.py", steps, envs, every=every, parameters=size // 4, machines=2)
    both = []
    for r in range(2):
        with open(f"{to}.{r}") as f:
            both.append(json.load(f))
    return {k: max(b[k] for b in both) for k in both[0]}


def compare(what, unit, ours, theirs):
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"{what}: {ratio:.3f}, {[round(x * 1e3, 1) for x in ours]} ms beside {[round(x * 1e3, 1) for x in theirs]} ms of {unit}", flush=True)


def main():
    binary, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    large, small = 100 << 20, 16 << 20
    ours, theirs = [], []
    for i in range(TIMES):
        theirs.append(gloo(folder, large))
        ours.append(exchange(binary, folder, f"large-{i}", large, 12, 1, 0)["exchange"])
    compare("a round of 100 MiB", "gloo", ours, theirs)
    ours, theirs = [], []
    for i in range(TIMES):
        theirs.append(exchange(None, folder, "plain", small, 150, 50, 0.1)["round"])
        ours.append(exchange(binary, folder, f"small-{i}", small, 200, 50, 0.1)["round"])
    compare("a round of 50 steps, 16 MiB", "the same without TierML", ours, theirs)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
