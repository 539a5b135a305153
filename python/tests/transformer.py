"""A small transformer that learns to continue a text, with dropout, AdamW and a learning-rate schedule."""

import os
import sys
import time

import torch

import tierml

torch.manual_seed(1)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
text = torch.tensor(list(open(__file__, "rb").read()[:700]))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, 32)
        self.layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), 2)
        self.out = torch.nn.Linear(32, 256)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.layers(self.embedding(x), mask))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
with tierml.keep(model, optimizer, scheduler) as kept, open("steps", "a", buffering=1) as steps:
    for step in kept.steps(int(sys.argv[1])):
        at = torch.randint(0, len(text) - 33, (8,)).tolist()
        x = torch.stack([text[i : i + 32] for i in at])
        y = torch.stack([text[i + 1 : i + 33] for i in at])
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        tierml.progress(step + 1, loss.item())
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))
        steps.write(f"{step}\n")
with open("result", "wb") as f:
    for p in model.parameters():
        f.write(p.detach().numpy().tobytes())
