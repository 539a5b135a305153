# Dorm's P2 (equations 6 to 18) by HiGHS, server by server, on arrivals and completions of table II's applications on 20 servers with 240 CPUs,
# 5 GPUs and 2.5 TB; each state starts from HiGHS's own last allocation. Prints dorm.json. Needs PyPI's scipy.
#   python3 dorm.py > dorm.json
import json
import random
import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

KINDS = [((2, 0, 8), 1, 32, 20), ((2, 0, 6), 2, 32, 20), ((4, 0, 6), 4, 8, 6), ((4, 1, 32), 1, 5, 1), ((6, 1, 16), 1, 5, 1),
         ((6, 1, 16), 2, 5, 1), ((4, 1, 32), 4, 5, 1)]  # demand, weight, n_max, number of applications; n_min = 1
SERVERS = [[12, 1 if j < 5 else 0, 128] for j in range(20)]
CAP = np.array(SERVERS, float)
TOTAL, B = CAP.sum(0), len(SERVERS)


def drf(apps):  # weighted progressive filling on the pool, from one container each
    n = {a: 1 for a in apps}
    used = sum((np.array(k[0], float) for k in apps.values()), np.zeros(3))
    share = {a: max(np.array(k[0]) / TOTAL) for a, k in apps.items()}
    active = set(apps)
    while active:
        a = min(active, key=lambda a: (share[a] * n[a] / apps[a][1], a))
        if n[a] >= apps[a][2] or (used + apps[a][0] > TOTAL + 1e-9).any():
            active.remove(a)
            continue
        n[a] += 1
        used += apps[a][0]
    return {a: share[a] * n[a] for a in apps}


def solve(apps, prev, t1, t2):
    names = sorted(apps)
    old = [a for a in names if a in prev]
    fair, n = drf(apps), len(names)
    nx = n * B
    size = nx + n + len(old)
    cost, whole = np.zeros(size), np.zeros(size)
    whole[:nx] = 1
    whole[nx + n:] = 1
    upper = np.full(size, np.inf)
    upper[nx + n:] = 1
    rows = []
    for i, a in enumerate(names):
        d = np.array(apps[a][0], float)
        cost[i * B:(i + 1) * B] = -(d / TOTAL).sum()
        upper[i * B:(i + 1) * B] = 12
        share = max(d / TOTAL)
        rows.append(([(i * B + j, 1) for j in range(B)], 1, apps[a][2]))
        rows.append(([(i * B + j, share) for j in range(B)] + [(nx + i, -1)], -np.inf, fair[a]))
        rows.append(([(i * B + j, -share) for j in range(B)] + [(nx + i, -1)], -np.inf, -fair[a]))
    for k in range(3):
        for j in range(B):
            rows.append(([(i * B + j, apps[a][0][k]) for i, a in enumerate(names) if apps[a][0][k]], -np.inf, CAP[j, k]))
    for q, a in enumerate(old):
        i = names.index(a)
        for j in range(B):
            rows.append(([(i * B + j, 1), (nx + n + q, -12)], -np.inf, prev[a][j]))
            rows.append(([(i * B + j, -1), (nx + n + q, -12)], -np.inf, -prev[a][j]))
    rows.append(([(nx + i, 1) for i in range(n)], -np.inf, t1 * 6))
    rows.append(([(nx + n + q, 1) for q in range(len(old))], -np.inf, np.ceil(t2 * len(old))))
    matrix = lil_matrix((len(rows), size))
    for r, (entries, _, _) in enumerate(rows):
        for x, v in entries:
            matrix[r, x] = v
    got = milp(cost, constraints=LinearConstraint(matrix.tocsc(), [r[1] for r in rows], [r[2] for r in rows]), integrality=whole,
               bounds=Bounds(0, upper), options=dict(time_limit=20, mip_rel_gap=1e-3))
    if got.x is None:
        return None, None, None
    x = np.round(got.x[:nx]).astype(int)
    return {a: x[i * B:(i + 1) * B].tolist() for i, a in enumerate(names)}, -got.fun, -got.mip_dual_bound


out = []
for seed, (t1, t2) in enumerate([(0.2, 0.1), (0.1, 0.2), (0.1, 0.1), (0.1, 1.0)]):
    r = random.Random(seed)
    queue = [k for k in range(len(KINDS)) for _ in range(KINDS[k][3])]
    r.shuffle(queue)
    running, held = {}, {}
    for event in range(22):
        if running and r.random() < 0.25:
            gone = r.choice(sorted(running))
            running.pop(gone)
            held.pop(gone, None)
        else:
            running[f"app{event:02d}"] = KINDS[queue.pop()]
        if not running:
            continue
        new, value, bound = solve(running, held, t1, t2)
        out.append(dict(theta1=t1, theta2=t2, apps=[dict(id=a, demand=k[0], weight=k[1], most=k[2], held=held.get(a)) for a, k in sorted(running.items())],
                        feasible=new is not None, value=value, bound=bound))
        print(seed, event, len(running), value, bound, file=sys.stderr)
        if new is None:  # the newest waits
            running = {a: k for a, k in running.items() if a in held}
        else:
            held = new
print(json.dumps(dict(servers=SERVERS, states=out)))
