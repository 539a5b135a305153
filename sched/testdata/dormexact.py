# P2 solved exactly by HiGHS, host by host, against our answers: the gap by number of hosts. Needs PyPI's scipy; minutes.
#   P2_STATES=states.jsonl P2_SEED=7 go test ./sched -run TestWriteStatesForExactSolver -count 1 && python3 sched/testdata/dormexact.py sched/states.jsonl 300
# The number of states is optional, and so is a file for the optima: testdata/dormexact.json has those of seed 7, to six digits. HiGHS has 5 s for
# each, and may end with less than the optimum.
import json
import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix


def solve(state, limit=5):
    """The greatest value, 0 without an answer, of one state."""
    apps, caps = state["Apps"], state["Caps"]
    hosts, n = len(caps), len(apps)
    placed = n * hosts
    old = [i for i, a in enumerate(apps) if a["Old"]]
    size = placed + n + len(old)
    cost, whole, upper = np.zeros(size), np.zeros(size), np.full(size, np.inf)
    whole[:placed] = whole[placed + n:] = 1
    upper[placed + n:] = 1
    rows = []
    for i, a in enumerate(apps):
        units = range(i * hosts, (i + 1) * hosts)
        cost[i * hosts:(i + 1) * hosts] = -a["Value"]
        for j in range(hosts):
            upper[i * hosts + j] = min([a["Most"]] + [np.floor((caps[j][k] + 1e-9) / d) for k, d in enumerate(a["Demand"]) if d > 0])
        rows.append(([(x, 1) for x in units], a["Least"], a["Most"]))
        rows.append(([(x, a["Share"]) for x in units] + [(placed + i, -1)], -np.inf, a["Fair"]))
        rows.append(([(x, -a["Share"]) for x in units] + [(placed + i, -1)], -np.inf, -a["Fair"]))
    for k in range(len(caps[0])):
        for j in range(hosts):
            rows.append(([(i * hosts + j, a["Demand"][k]) for i, a in enumerate(apps)], -np.inf, caps[j][k]))
    for q, i in enumerate(old):
        for j, held in enumerate(apps[i]["Held"]):
            most = max(upper[i * hosts + j], held)
            rows.append(([(i * hosts + j, 1), (placed + n + q, -most)], -np.inf, held))
            rows.append(([(i * hosts + j, -1), (placed + n + q, -most)], -np.inf, -held))
    rows.append(([(placed + i, 1) for i in range(n)], -np.inf, state["Unfair"] + 1e-9))
    if old:
        rows.append(([(placed + n + q, 1) for q in range(len(old))], -np.inf, state["Resize"]))
    matrix = lil_matrix((len(rows), size))
    for r, (entries, _, _) in enumerate(rows):
        for x, v in entries:
            matrix[r, x] = v
    got = milp(cost, constraints=LinearConstraint(matrix.tocsc(), [r[1] for r in rows], [r[2] for r in rows]), integrality=whole,
               bounds=Bounds(0, upper), options=dict(time_limit=limit, mip_rel_gap=1e-4))
    return 0 if got.x is None else -got.fun


gaps = {"1 to 2 hosts": [], "3 to 20 hosts": []}
missed, seconds, optima = [], [], []
lines = open(sys.argv[1]).readlines()
for number, line in enumerate(lines[:int(sys.argv[2])] if len(sys.argv) > 2 else lines):
    state = json.loads(line)
    exact = solve(state)
    seconds.append(state["Millis"])
    optima.append(round(exact, 6))
    if exact == 0:
        continue
    if state["Ours"] == 0:
        missed.append(number)
        continue
    gaps["1 to 2 hosts" if len(state["Caps"]) < 3 else "3 to 20 hosts"].append(max(exact - state["Ours"], 0) / exact)
    if state["Bound"] < exact - 1e-6:
        sys.exit(f"state {number}: bound {state['Bound']}, and {exact} is possible")
for name, all in gaps.items():
    if all:
        print(f"{name}: {len(all)} states, {100 * np.mean(all):.3f} % below the optimum in the mean, {100 * max(all):.2f} % at worst")
print(f"without an answer although there is one: {missed}; ours took {np.mean(seconds):.1f} ms of processor time in the mean, {max(seconds):.0f} at most")
if len(sys.argv) > 3:
    json.dump(optima, open(sys.argv[3], "w"))
