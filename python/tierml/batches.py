"""Batches as a function of the step: a program that resumes at a step continues with the data of that step.

Nothing here has state. The order of an epoch is a permutation that is computed for each position, so no list of all examples is stored.
"""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import sys
from typing import Any, Callable, Iterator, Protocol

_MASK = (1 << 64) - 1
_ROUNDS = 6


def _mix(x: int) -> int:
    """A bijection of 64-bit numbers in which each bit of the argument changes half of the result's bits (splitmix64's)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class _Order:
    """A permutation of range(n): a Feistel network on the next larger power of four, repeated until the result is below n."""

    def __init__(self, n: int, *key: int) -> None:
        self.n = n
        self.half = max(1, ((n - 1).bit_length() + 1) // 2)
        raw = hashlib.sha512("/".join(map(str, key)).encode()).digest()
        self.keys = [int.from_bytes(raw[8 * i:8 * i + 8], "little") for i in range(_ROUNDS)]

    def __getitem__(self, i: int) -> int:
        mask = (1 << self.half) - 1
        while True:
            left, right = i >> self.half, i & mask
            for key in self.keys:
                left, right = right, left ^ (_mix(right ^ key) & mask)
            i = left << self.half | right
            if i < self.n:
                return i


def _collate(examples: list[Any]) -> Any:
    torch, numpy, first = sys.modules.get("torch"), sys.modules.get("numpy"), examples[0]
    if torch is not None and isinstance(first, torch.Tensor):
        return torch.stack(examples)
    if isinstance(first, tuple):
        return tuple(_collate(list(part)) for part in zip(*examples))
    if isinstance(first, dict):
        return {name: _collate([e[name] for e in examples]) for name in first}
    if numpy is not None and isinstance(first, (numpy.ndarray, numpy.generic)):
        stacked = numpy.stack(examples)
        return stacked if torch is None else torch.from_numpy(stacked)
    if torch is not None and isinstance(first, (bool, int, float)):
        return torch.tensor(examples)
    return examples


class Dataset(Protocol):
    """Anything with a length that returns examples by index: a list, an array, a torch Dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Batches:
    """The batches of a dataset, by step. The same arguments give the same examples, on any machine and with any number of ranks.

        data = tierml.Batches(dataset, 32, seed=1)
        with tierml.keep(model, optimizer) as kept:
            for step in kept.steps(1000):
                x, y = data[0, step]

    The dataset has a length and returns examples by index. Each example occurs once per epoch; a batch at an epoch's end continues with the next
    epoch, so all batches have `size` examples. Each replica has its own order. Examples of shape [a, b] become a batch of shape [size, a, b], a torch
    tensor if torch is imported; tuples and dicts of them become tuples and dicts of batches. `collate` replaces this function from a list of examples
    to a batch.
    """

    def __init__(self, dataset: Dataset, size: int, *, seed: int, collate: Callable[[list[Any]], Any] | None = None) -> None:
        if size < 1 or len(dataset) < 1:
            raise ValueError(f"tierml.Batches needs at least one example and a size of at least 1, not {len(dataset)} and {size}")
        self.dataset, self.size, self.seed = dataset, int(size), int(seed)
        self._collate = collate or _collate
        self._orders: dict[tuple[int, int], _Order] = {}

    def indices(self, replica: int, step: int) -> list[int]:
        """The examples of a replica's step, as indices of the dataset."""
        if step < 0:
            raise IndexError(f"step {step}: the first is 0")
        n, at = len(self.dataset), step * self.size
        return [self._order(replica, p // n)[p % n] for p in range(at, at + self.size)]

    def _order(self, replica: int, epoch: int) -> _Order:
        order = self._orders.get((replica, epoch))
        if order is None:
            if len(self._orders) > 16:
                self._orders = {}  # replaced atomically: other threads may read the old one
            order = self._orders[replica, epoch] = _Order(len(self.dataset), self.seed, replica, epoch)
        return order

    def _examples(self, indices: list[int]) -> Any:
        return self._collate([self.dataset[i] for i in indices])

    def __getitem__(self, key: tuple[int, int]) -> Any:
        """The batch of a replica's step: batches[replica, step], both from 0."""
        replica, step = key
        return self._examples(self.indices(replica, step))

    def of(self, step: int, rank: int, ranks: int) -> Any:
        """A rank's part of a step's batch. All ranks' parts make up the batch, whose examples do not depend on the number of ranks."""
        return self._examples(self.part(step, rank, ranks))

    def part(self, step: int, rank: int, ranks: int) -> list[int]:
        """The examples of a rank's part, as indices of the dataset."""
        if not 0 <= rank < ranks or ranks > self.size:
            raise ValueError(f"rank {rank} of {ranks} has no part of a batch of {self.size}")
        return self.indices(0, step)[self.size * rank // ranks:self.size * (rank + 1) // ranks]

    def loader(self, first: int, workers: int = 0, *, replica: int = 0, rank: int = 0, ranks: int = 1) -> Iterator[Any]:
        """Endless batches from a step on, prefetched by `workers` threads."""
        def batch(step: int) -> Any:
            return self.of(step, rank, ranks) if ranks > 1 else self[replica, step]

        return _Loader(batch, first, workers)


class _Loader(Iterator[Any]):
    def __init__(self, batch: Callable[[int], Any], first: int, workers: int) -> None:
        self._batch, self._step = batch, first
        self._pool = concurrent.futures.ThreadPoolExecutor(workers) if workers > 0 else None
        self._ahead: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
        self._most = 2 * workers

    def __next__(self) -> Any:
        if self._pool is None:
            self._step += 1
            return self._batch(self._step - 1)
        while len(self._ahead) < self._most:
            self._ahead.append(self._pool.submit(self._batch, self._step))
            self._step += 1
        return self._ahead.popleft().result()
