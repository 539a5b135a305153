"""A replica. AWAY says which rounds it misses: a quarter of them, at random, or the second half of the run, if it is one of the last two. It
delivers nothing of them, or with AS=still a delta of zero, by whose weight the servers then divide."""

import os
import random

import torch

import model as models
import tierml

data, model, optimizer = models.begin()
seed, away, still = int(os.environ["SEED"]), os.environ.get("AWAY", ""), os.environ.get("AS") == "still"
batches = tierml.Batches(data, data.size, seed=seed)


def missing(run):
    if away == "quarter":
        return random.Random(f"{seed}/{run.replica}/{run.round}").random() < 0.25
    return away == "half" and run.replica >= 2 and run.round > 24


with tierml.DiLoCo(model, optimizer) as run:
    at, gone = 0, False
    for step in run.steps():
        if run.round != at:
            at, was, gone = run.round, gone, missing(run)
            if was and not gone:  # another machine's, which begins with a fresh optimizer
                optimizer = torch.optim.AdamW(model.parameters(), data.rate)
            if gone and not still:  # not numbers, so that it is not delivered
                with torch.no_grad():
                    next(model.parameters()).fill_(float("nan"))
        if not gone:
            run.progress(models.step(data, model, optimizer, batches[run.replica, step]))
