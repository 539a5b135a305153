"""Optuna's TPESampler for TestTPEComparedWithOptuna: a line of JSON in for each request, one out for each trial."""

import json
import sys

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

optuna.logging.set_verbosity(optuna.logging.ERROR)


def distribution(r):
    if r["Values"]:
        return CategoricalDistribution(r["Values"])
    if r["Whole"]:
        return IntDistribution(int(r["Low"]), int(r["High"]), log=r["Log"])
    return FloatDistribution(r["Low"], r["High"], log=r["Log"])


for line in sys.stdin:
    request = json.loads(line)
    if "seed" in request:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=request["seed"], n_startup_trials=request["first"]))
        space = {r["Name"]: distribution(r) for r in request["ranges"]}
        trials = []
    for i, loss in request.get("told", []):
        study.tell(trials[i], float("inf") if loss is None else loss)
    if "told" in request:
        trials.append(study.ask(space))
        print(json.dumps({name: str(value) for name, value in trials[-1].params.items()}), flush=True)
