# Regret after 40 samples of Branin and Hartmann6 with noise of a tenth of the function's standard deviation: optuna's
# GPSampler and random search, over 30 and 80 seeds. Regret is the true value of the best point sampled, minus the minimum. Prints
# regret.json. Needs PyPI's optuna and torch.
#   python3 regret.py > regret.json
import json
import sys
import warnings

import numpy as np
import optuna

warnings.filterwarnings("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)


def branin(u):
    a, b = 15 * u[0] - 5, 15 * u[1]
    return (b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


A = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
P = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                     [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])


def hartmann(u):
    return -np.array([1, 1.2, 3, 3.2]) @ np.exp(-(A * (np.asarray(u) - P) ** 2).sum(1))


out = {}
for name, f, d, least, seeds in (("branin", branin, 2, 0.39788735772973816, 30), ("hartmann6", hartmann, 6, -3.32236801141551, 80)):
    sd = float(np.std([f(u) for u in np.random.default_rng(0).random((20000, d))]))
    regret = {"gp": [], "random": []}
    for seed in range(seeds):
        for kind in regret:
            rng, true = np.random.default_rng(1000 + seed), []

            def objective(trial):
                true.append(float(f([trial.suggest_float(f"x{i}", 0, 1) for i in range(d)])))
                return true[-1] + 0.1 * sd * rng.normal()

            sampler = optuna.samplers.GPSampler(seed=seed) if kind == "gp" else optuna.samplers.RandomSampler(seed=seed)
            optuna.create_study(sampler=sampler).optimize(objective, n_trials=40)
            regret[kind].append(min(true) - least)
        print(name, seed, regret["gp"][-1], regret["random"][-1], file=sys.stderr)
    out[name] = dict(sd=sd, gp=regret["gp"], random=regret["random"])
print(json.dumps(out))
