"""Two ranks that train one model together."""

import sys

import torch
import torch.distributed

import tierml

torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(10, 1)
with tierml.keep(model) as kept:
    for step in kept.steps(int(sys.argv[1])):
        total = torch.ones(1)
        torch.distributed.all_reduce(total)
