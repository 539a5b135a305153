"""A replica whose steps are pauses. It writes how long its rounds' exchanges take, and the median time of a round, to WRITES.<replica>."""

import json
import os
import statistics
import time

import numpy as np

import tierml

pause, every = float(os.environ["PAUSE"]), int(os.environ["EVERY"])
model = {"w": np.zeros(int(os.environ["FLOATS"]), np.float32)}
exchanges, rounds, ended, began = [], [], None, None
with tierml.DiLoCo(model, every=every) as run:
    for step in run.steps(int(os.environ["STEPS"])):
        if step % every == 0:
            now = time.perf_counter()
            if ended is not None:
                exchanges.append(now - ended)
                rounds.append(now - began)
            began = now
        time.sleep(pause)
        model["w"][::4096] += 1
        ended = time.perf_counter()
with open(f"{os.environ['WRITES']}.{run.replica}", "w") as f:
    json.dump({"exchange": statistics.median(exchanges), "round": statistics.median(rounds)}, f)
