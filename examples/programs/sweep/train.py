"""One trial: a classifier of points in two rings, by stochastic gradient descent with momentum."""

import json
import math
import os
import random
import time
from typing import Any, Iterator, Tuple

import tierml

rate, momentum, width = float(os.environ["RATE"]), float(os.environ["MOMENTUM"]), int(os.environ["WIDTH"])
epochs = 30
Point = Tuple[float, float, int]  # where, and which ring


def points(n: int, seed: int) -> Iterator[Point]:
    chance = random.Random(seed)
    for _ in range(n):
        label = chance.randrange(2)
        radius, angle = 1 + label + chance.gauss(0, 0.2), chance.uniform(0, 2 * math.pi)
        yield radius * math.cos(angle), radius * math.sin(angle), label


def forward(model: dict[str, Any], x: float, y: float) -> tuple[list[float], float]:
    hidden = [math.tanh(a * x + b * y + c) for a, b, c, _ in model["units"]]
    z = model["bias"] + sum(u[3] * h for u, h in zip(model["units"], hidden))
    return hidden, 1 / (1 + math.exp(-max(-30, min(30, z))))


def loss(model: dict[str, Any], data: list[Point]) -> float:
    total = 0.0
    for x, y, label in data:
        _, p = forward(model, x, y)
        total -= math.log(max(1e-12, p if label else 1 - p))
    return total / len(data)


train, test = list(points(400, 1)), list(points(400, 2))
chance = random.Random(3)
model: dict[str, Any] = {"units": [[chance.gauss(0, 1) for _ in range(4)] for _ in range(width)], "bias": 0.0}
speed: dict[str, Any] = {"units": [[0.0] * 4 for _ in range(width)], "bias": 0.0}
with tierml.keep(model, speed, chance) as kept:
    for epoch in kept.steps(epochs):
        for x, y, label in chance.sample(train, len(train)):
            hidden, p = forward(model, x, y)
            error = p - label
            for unit, v, h in zip(model["units"], speed["units"], hidden):
                back = error * unit[3] * (1 - h * h)
                for i, gradient in enumerate((back * x, back * y, back, error * h)):
                    v[i] = momentum * v[i] - rate * gradient
                    unit[i] += v[i]
            speed["bias"] = momentum * speed["bias"] - rate * error
            model["bias"] += speed["bias"]
        tierml.progress(epoch + 1, loss(model, train))
        time.sleep(0.15)  # a real one takes longer

result = {"rate": rate, "momentum": momentum, "width": width, "loss": loss(model, test),
          "accuracy": sum((forward(model, x, y)[1] > 0.5) == (label == 1) for x, y, label in test) / len(test)}
state = tierml.state()
if state:
    scratch = os.path.join(state, "result.json.tmp")
    with open(scratch, "w") as f:
        json.dump(result, f)
    os.replace(scratch, scratch[: -len(".tmp")])
print(result)
