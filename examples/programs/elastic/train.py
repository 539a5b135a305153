"""Data-parallel training whose ranks come and go. torch's elastic agent restarts this script in each round of ranks; each rank holds the whole state,
and all begin with the newest, so that a lost machine costs at most the steps since the last save, and one with a notice costs none."""

import os
import signal
import time

import tierml
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, PAUSE = int(os.environ.get("STEPS", "400")), 10, float(os.environ.get("PAUSE", "0"))


def main() -> None:
    file = os.path.join(os.environ["TIERML_STATE"], "state.pt")
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)
    points = torch.randn(4096, 16)
    dataset = list(zip(points, points @ torch.randn(16, 1)))
    batches = tierml.Batches(dataset, 64, seed=1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    mine = torch.load(file) if os.path.exists(file) else {"step": 0, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    steps = [torch.zeros(1, dtype=torch.long) for _ in range(ranks)]
    dist.all_gather(steps, torch.tensor([mine["step"]]))
    newest = max(range(ranks), key=lambda r: int(steps[r]))
    box = [mine]
    dist.broadcast_object_list(box, src=newest)
    model.load_state_dict(box[0]["model"])
    optimizer.load_state_dict(box[0]["optimizer"])
    print(f"rank {rank} of {ranks} begins at step {box[0]['step']}", flush=True)

    ending: list[int] = []  # at a notice, and when ranks come or go
    signal.signal(signal.SIGTERM, lambda number, frame: ending.append(number))
    parallel = DistributedDataParallel(model)
    for step in range(box[0]["step"], STEPS):
        x, y = batches.of(step, rank, ranks)
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(PAUSE)  # a larger model would take longer
        tierml.progress(step + 1, loss.item())
        if (step + 1) % EVERY == 0 or ending:
            torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file + ".tmp")
            os.replace(file + ".tmp", file)
        if ending:
            os._exit(143)  # the others notice at once, and meet again without this one
    print(f"loss {loss.item():.4f} after {STEPS} steps", flush=True)


main()
