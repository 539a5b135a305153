"""A character transformer whose embedding is frozen: it learns to continue a text."""

import hashlib
import os
import time

import torch

import tierml

STEPS = int(os.environ.get("STEPS", "300"))
torch.manual_seed(1)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
with open("text.txt", "rb") as f:
    text = torch.tensor(list(f.read()))


class Model(torch.nn.Module):
    def __init__(self, width: int = 64, length: int = 32) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.position = torch.nn.Parameter(torch.zeros(length, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)
        self.out = torch.nn.Linear(width, 256)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.layers(self.embedding(x) + self.position, self.mask))
        return y


model = Model()
model.embedding.requires_grad_(False)  # the base does not change, and is sent once
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
with tierml.keep(model, optimizer, scheduler) as kept:
    print(f"from step {kept.step}")
    for step in kept.steps(STEPS):
        at = torch.randint(0, len(text) - 33, (16,)).tolist()
        x = torch.stack([text[i : i + 32] for i in at])
        y = torch.stack([text[i + 1 : i + 33] for i in at])
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        tierml.progress(step + 1, loss.item())
        time.sleep(float(os.environ.get("PAUSE", "0.1")))  # a real one takes longer
digest = hashlib.sha256()
for p in model.parameters():
    digest.update(p.detach().numpy().tobytes())
print(f"the model is {digest.hexdigest()[:16]}")
