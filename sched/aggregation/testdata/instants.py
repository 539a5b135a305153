# How few whole aggregators could serve what clusters serve at some instants (TestInstantsOfPhilly), by LossLimit .1, if tasks could be cut at will:
# a lower bound that HiGHS proves. An aggregator's cycle is the iteration of its slowest job; in a cycle C a job of iterations D has floor(C/D)
# turns, and may be there if it loses at most the limit. Usage: instants.py FILE; needs scipy.
import json
import math
import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

LIMIT = 0.1


def fewest(jobs, seconds=3):
    n, shares = len(jobs), []  # of a job's work in aggregators of a cycle, and what all of it takes of one
    for a, job in enumerate(jobs):
        for c, other in enumerate(jobs):
            cycle, turns = other["d"], math.floor(other["d"] / job["d"] + 1e-12)
            if turns > 0 and 1 - job["d"] * turns / cycle <= LIMIT + 1e-12:
                shares.append((a, c, job["u"] * turns * job["d"] / cycle))
    rows, m = lil_matrix((2 * n, len(shares) + n)), len(shares)
    for v, (a, c, takes) in enumerate(shares):
        rows[a, v], rows[n + c, v] = 1, takes
    for c in range(n):
        rows[n + c, m + c] = -1
    limits = LinearConstraint(rows.tocsr(), np.r_[np.ones(n), np.full(n, -np.inf)], np.r_[np.ones(n), np.zeros(n)])
    found = milp(np.r_[np.zeros(m), np.ones(n)], constraints=limits, integrality=np.r_[np.zeros(m), np.ones(n)],
                 bounds=Bounds(0, np.r_[np.ones(m), np.full(n, np.inf)]), options={"time_limit": seconds})
    return math.ceil((found.mip_dual_bound or 0) - 1e-6)


sums = {}
for line in open(sys.argv[1]):
    s = json.loads(line)
    t = sums.setdefault(s["vc"], np.zeros(8))
    t += [s["asked"], s["busy"], math.ceil(s["busy"] - 1e-9), s["ours"], s["longer"], fewest(s["jobs"]), s["lost"], 1]
for name, (asked, busy, whole, ours, longer, least, lost, n) in sums.items():
    reached = [(1 - x / asked) / (1 - busy / asked) for x in (ours, whole, least, longer)]
    print("%s: of the bound's saving, packed from nothing %.3f, whole servers at most %.3f, by LossLimit at most %.4f; in longer cycles %.3f, where "
          "jobs lose %.1f %% of their speed" % (name, *reached, 100 * lost / n))
