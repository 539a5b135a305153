"""Writes the median time in which two processes all-reduce an array of BYTES with gloo to WRITES: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""

import os
import statistics
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
x, took = torch.ones(int(os.environ["BYTES"]) // 4), []
for _ in range(12):
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(x)
    took.append(time.perf_counter() - began)
    x.fill_(1)
if dist.get_rank() == 0:
    with open(os.environ["WRITES"], "w") as f:
        f.write(str(statistics.median(took[2:])))
