"""Gradient boosting that saves its model every five rounds, and continues from there."""

import os
import time

import numpy
import xgboost

import tierml

ROUNDS, EACH = 300, 5
rng = numpy.random.default_rng(1)
x = rng.standard_normal((20_000, 20), dtype=numpy.float32)
y = (x[:, 0] * x[:, 1] + numpy.sin(3 * x[:, 2]) + rng.standard_normal(20_000) * 0.3 > 0).astype(int)
train, test = xgboost.DMatrix(x[:16_000], y[:16_000]), xgboost.DMatrix(x[16_000:], y[16_000:])
params = {"objective": "binary:logistic", "eval_metric": "logloss", "eta": 0.1, "max_depth": 4, "nthread": 1, "seed": 1}

checkpoint = os.path.join(tierml.state() or ".", "model.json")
scratch = os.path.join(tierml.state() or ".", ".tierml-model.json")  # the name must end in json; names that begin with .tierml- are not mirrored
booster = xgboost.Booster(params, model_file=checkpoint) if os.path.exists(checkpoint) else None
done = booster.num_boosted_rounds() if booster else 0
print(f"from round {done}")
while done < ROUNDS:
    booster = xgboost.train(params, train, EACH, xgb_model=booster)
    done += EACH
    booster.save_model(scratch)
    os.replace(scratch, checkpoint)
    print(booster.eval(test, "test", done))
    time.sleep(0.8)  # a real one takes longer
