"""A character transformer, trained by replicas that exchange their updates every few steps."""

import hashlib
import os
import time

import torch

import tierml

torch.manual_seed(1)
torch.set_num_threads(1)
with open("text.txt", "rb") as f:
    text = torch.tensor(list(f.read()))
LENGTH = 32


class Windows:
    def __len__(self) -> int:
        return len(text) - LENGTH - 1

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return text[i : i + LENGTH], text[i + 1 : i + 1 + LENGTH]


class Model(torch.nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.position = torch.nn.Parameter(torch.zeros(LENGTH, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 1)
        self.out = torch.nn.Linear(width, 256)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.layers(self.embedding(x) + self.position, self.mask))
        return y


device = "cuda" if torch.cuda.is_available() else "cpu"
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
data = tierml.Batches(Windows(), 8, seed=1)
with tierml.DiLoCo(model, optimizer) as run:
    for step in run.steps(int(os.environ["STEPS"]) if "STEPS" in os.environ else None):
        x, y = data[run.replica, step]
        loss = torch.nn.functional.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.progress(loss)
        if step % 10 == 0:
            print(f"replica {run.replica} round {run.round} step {step} loss {loss.item():.4f}")
        time.sleep(float(os.environ.get("PAUSE", "0.02")))  # a real one takes longer
digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))
print(f"this replica ends as {digest.hexdigest()[:16]}")
