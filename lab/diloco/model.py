"""The models of these measurements, and their data: a character transformer on a text, LeNet on 10,000 digits, and a small network."""

import gzip
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional

torch.set_num_threads(1)
LENGTH = 48


class Transformer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.position = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, x):
        return self.out(self.layers(self.embedding(x) + self.position, self.mask))


class Characters:
    """Examples are windows of the first nine tenths of TEXT; windows of the rest, next to each other, are the test."""

    rate, size = 3e-3, 8

    def __init__(self):
        with open(os.environ["TEXT"], "rb") as f:
            self.text = torch.tensor(list(f.read()))
        self.cut = len(self.text) * 9 // 10

    def model(self):
        return Transformer()

    def __len__(self):
        return self.cut - LENGTH

    def __getitem__(self, i):
        return self.text[i:i + LENGTH], self.text[i + 1:i + 1 + LENGTH]

    def loss(self, model, batch):
        x, y = batch
        return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def test(self, model):
        """The mean loss of a character."""
        starts = range(self.cut, len(self.text) - LENGTH - 1, LENGTH)
        with torch.no_grad():
            return self.loss(model, [torch.stack(part) for part in zip(*(self[i] for i in starts))]).item()


class Digits:
    rate, size = 1e-3, 32

    def __init__(self):
        def read(name, skip):
            with gzip.open(os.path.join(os.environ["DIGITS"], name)) as f:
                return np.frombuffer(f.read()[skip:], np.uint8)

        self.x = torch.tensor(read("mnist-t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
        self.y = torch.tensor(read("mnist-t10k-labels-idx1-ubyte.gz", 8).astype(np.int64))

    def model(self):
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def __len__(self):
        return 8000

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def loss(self, model, batch):
        return functional.cross_entropy(model(batch[0]), batch[1])

    def test(self, model):
        """The share of the last 2,000 digits that it misclassifies."""
        with torch.no_grad():
            return (model(self.x[8000:]).argmax(1) != self.y[8000:]).float().mean().item()


class Points:
    """A function of 16 numbers: a step takes a millisecond."""

    rate, size = 1e-2, 64

    def __init__(self):
        torch.manual_seed(1)
        self.x = torch.randn(4096, 16)
        self.y = torch.tanh(self.x @ torch.randn(16, 1))

    def model(self):
        return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def loss(self, model, batch):
        return functional.mse_loss(model(batch[0]), batch[1])


def begin():
    """The data of the environment's TASK, and a model and an optimizer with its SEED."""
    data = {"characters": Characters, "digits": Digits, "points": Points}[os.environ["TASK"]]()
    torch.manual_seed(int(os.environ["SEED"]))
    model = data.model()
    return data, model, torch.optim.AdamW(model.parameters(), data.rate)


def step(data, model, optimizer, batch):
    loss = data.loss(model, batch)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss
