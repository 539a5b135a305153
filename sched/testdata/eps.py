# Arrivals and qualities of 75 trials, and the results of an independent model of EPS (section 6: 144 slots, 8 workers and 4 servers a
# job, feedback at iteration 100). Prints eps.json. The model is a Python file with
# sim(kind, seed, gap, iters) -> (end, mean feedback, done, killed, ..., slot hours).
#   python3 eps.py MODEL.py > eps.json
import json
import random
import sys

space = {}
exec(open(sys.argv[1]).read().split("\nfor gap in")[0], space)
out = []
for gap in (60, 180):
    for seed in range(5):
        r, t, arrivals = random.Random(seed), 0, []
        for _ in range(75):
            t += r.expovariate(1 / gap)
            arrivals.append(t)
        quality = [r.random() for _ in range(75)]
        results = {}
        for kind, name in (("ps", "fifo"), ("kill", "kill"), ("eps", "h")):
            m = space["sim"](kind, seed, gap=gap, iters=400)
            results[name] = dict(makespan=m[0], feedback=m[1], done=m[2], killed=m[3], slot_hours=m[7])
        out.append(dict(gap=gap, seed=seed, arrivals=arrivals, quality=quality, results=results))
print(json.dumps(out))
