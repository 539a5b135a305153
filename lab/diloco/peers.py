"""A rank of a gang with `on_loss: replace` whose ranks are torchft's replica groups: with ARM=torchft torchft's DiLoCo, with ARM=torchft-ddp its
data-parallel training. With the argument "lighthouse" it is the gang's coordinator. A step takes STEP seconds at least, as in replica.py. It appends to
WRITES.<process>: time, steps done here, torchft's step, whether that one was just committed (null: no vote), ranks."""

import datetime
import json
import os
import signal
import sys
import threading
import time

from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer

WAIT = datetime.timedelta(seconds=5)


def lighthouse():
    server = LighthouseServer(bind="{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ), min_replicas=2, join_timeout_ms=1000, heartbeat_timeout_ms=5000)
    print("lighthouse at", server.address(), flush=True)
    threading.Event().wait()


def main():
    import torch
    from torch.distributed import TCPStore
    from torchft.local_sgd import DiLoCo

    import model as models
    import tierml

    arm, pause, every = os.environ["ARM"], float(os.environ["STEP"]), 50
    ddp = arm == "torchft-ddp"
    out = os.open(f"{os.environ['WRITES']}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data, model, inner = models.begin()
    batches = tierml.Batches(data, data.size, seed=1)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    ending = []
    signal.signal(signal.SIGTERM, lambda number, frame: ending.append(number))

    def load(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])
        outer.load_state_dict(state["outer"])

    def save():
        return {"model": model.state_dict(), "inner": inner.state_dict(), "outer": outer.state_dict()}

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=WAIT), min_replica_size=2, use_async_quorum=ddp, load_state_dict=load, state_dict=save, replica_id="rank" + os.environ["NODE_RANK"],
        store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1, lighthouse_addr="http://{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ),
        hostname="127.0.0.1", timeout=WAIT, quorum_timeout=datetime.timedelta(seconds=60), connect_timeout=WAIT)
    trained = DistributedDataParallel(manager, model) if ddp else model
    optimizer = Optimizer(manager, inner) if ddp else inner
    votes, commits = [], manager.should_commit

    def should_commit(*args, **named):
        votes.append(commits(*args, **named))
        return votes[-1]

    manager.should_commit = should_commit

    def steps():
        rank, done, voted = int(os.environ["NODE_RANK"]), 0, 0
        while manager.current_step() < int(os.environ["STEPS"]):
            began = time.time()
            optimizer.zero_grad()
            loss = data.loss(trained, batches[rank, done])
            loss.backward()
            time.sleep(max(0.0, began + pause - time.time()))
            optimizer.step()
            done += 1
            vote = votes[-1] if len(votes) > voted else None
            os.write(out, json.dumps([time.time(), done, manager.current_step(), vote, manager.num_participants() if vote else 0]).encode() + b"\n")
            voted = len(votes)
            tierml.progress(manager.current_step(), loss.item())
            if ending:
                print("leaves at a notice after", done, "steps", flush=True)
                manager.shutdown(wait=False)
                os._exit(143)

    if ddp:
        steps()
    else:
        with DiLoCo(manager, [model], inner, outer, sync_every=every):
            steps()


lighthouse() if sys.argv[1:] == ["lighthouse"] else main()
