"""The quality of models trained in rounds on the tiers, compared with synchronous AdamW on the same examples: python quality.py TIERML FOLDER SEEDS
[TASK...]

FOLDER takes the runs. TEXT and DIGITS are the data; KINDS, such as "undisturbed,int8", are those that run. Test losses are of characters, error rates of digits; ratios are medians of the seeds.
"""

import json
import os
import statistics
import struct
import sys

import numpy as np
import torch

import jobs
import tierml

EVERY, REPLICAS = 50, 4
STEPS = {"characters": 48 * EVERY, "digits": 12 * EVERY}

def load(model, path):
    with open(path, "rb") as f:
        text = f.read()
    n, = struct.unpack("<Q", text[:8])
    state = {}
    for name, t in json.loads(text[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            kind = {"F32": "<f4", "I64": "<i8"}[t["dtype"]]
            state[name] = torch.from_numpy(np.frombuffer(text[8 + n + begin:8 + n + end], kind).copy().reshape(t["shape"]))
    model.load_state_dict(state)
    return model


def synchronous(data, model, optimizer, seed, steps, models):
    batches = tierml.Batches(data, data.size, seed=seed)
    for s in range(steps):
        parts = [batches[r, s] for r in range(REPLICAS)]
        models.step(data, model, optimizer, [torch.cat(part) for part in zip(*parts)])
    return model


def main():
    import model as models

    binary, folder, seeds, tasks = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or list(STEPS)
    os.environ.update((name, os.path.abspath(os.environ[name])) for name in ("TEXT", "DIGITS"))
    kinds = {"undisturbed": {}, "int8": {}, "a quarter missing": {"AWAY": "quarter"}, "two gone": {"AWAY": "half"}, "two gone divided by four": {"AWAY": "half", "AS": "still"}}
    wanted = os.environ.get("KINDS", "").split(",") if os.environ.get("KINDS") else ["synchronous", *kinds]
    for task in tasks:
        scores = {}
        for seed in range(1, seeds + 1):
            os.environ.update(TASK=task, SEED=str(seed))
            data, model, optimizer = models.begin()
            if "synchronous" in wanted:
                scores.setdefault("synchronous", []).append(data.test(synchronous(data, model, optimizer, seed, STEPS[task], models)))
            for number, (kind, envs) in enumerate(kinds.items()):
                if kind not in wanted or task == "digits" and kind.startswith("two"):
                    continue
                trained = jobs.run(binary, folder, f"{task}-{seed}-{number}", "train.py", STEPS[task], {**envs, "TASK": task, "SEED": seed}, every=EVERY,
                                   transport="int8" if kind == "int8" else "float32")
                scores.setdefault(kind, []).append(data.test(load(data.model(), os.path.join(trained, "model.safetensors"))))
            print(task, seed, {k: round(v[-1], 4) for k, v in scores.items()}, "load", os.getloadavg()[0], flush=True)
        for kind, of in (("undisturbed", "synchronous"), ("int8", "undisturbed"), ("a quarter missing", "undisturbed"), ("two gone", "two gone divided by four")):
            if kind in scores and of in scores:
                ratios = [a / b for a, b in zip(scores[kind], scores[of])]
                print(f"{task}: {kind} / {of}: {statistics.median(ratios):.4f} of {[round(r, 4) for r in ratios]}; means {statistics.mean(scores[kind]):.4f} and {statistics.mean(scores[of]):.4f}", flush=True)


if __name__ == "__main__":
    main()
