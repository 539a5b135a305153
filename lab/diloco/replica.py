"""A replica on the tiers, or with ARM=gang a rank of a data-parallel gang that tierml.keep saves. A step takes STEP seconds at least: a larger model
would, and so four fit a few cores. It appends each step when it is done to WRITES.<process>: time, step, round, replica, ledger.

A replica's model has a ledger, a number for each replica that grows by 1 in its steps. What the servers have made of it when a round begins says which
steps have counted."""

import json
import os
import time

import torch

import model as models
import tierml

pause = float(os.environ["STEP"])
out = os.open(f"{os.environ['WRITES']}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
data, model, optimizer = models.begin()
batches = tierml.Batches(data, data.size * (tierml.ranks() if os.environ["ARM"] == "gang" else 1), seed=1)


def step(number, trained, batch, round=0, replica=0, ledger=None):
    began = time.time()
    loss = models.step(data, trained, optimizer, batch).item()
    time.sleep(max(0.0, began + pause - time.time()))
    os.write(out, json.dumps([time.time(), number, round, replica, ledger]).encode() + b"\n")
    return loss


if os.environ["ARM"] == "gang":
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    parallel = DistributedDataParallel(model)
    with tierml.keep(model, optimizer) as kept:
        for s in kept.steps(int(os.environ["STEPS"])):
            tierml.progress(s + 1, step(s, parallel, batches.of(s, dist.get_rank(), dist.get_world_size())))
else:
    model.register_buffer("ledger", torch.zeros(int(os.environ["REPLICAS"])))
    at = 0
    with tierml.DiLoCo(model, optimizer) as run:
        for s in run.steps():
            ledger = model.ledger.tolist() if run.round != at else None
            at = run.round
            model.ledger[run.replica] += 1
            run.progress(step(s, model, batches[run.replica, s], run.round, run.replica, ledger))
