"""Snapshots of a program's objects at step boundaries.

A snapshot is a folder of two files: `graph`, a pickle of the objects without their large arrays, and `arrays`, the arrays' bytes one after the other,
at the same offsets as long as shapes stay the same. Only the changed parts of a snapshot therefore need to be sent. Between two steps it is only
copied in memory; a thread writes the copy to a temporary folder and renames that, so a snapshot appears atomically.
"""

from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import io
import json
import os
import pickle
import random
import shutil
import signal
import sys
import threading
import time
from types import ModuleType, TracebackType
from typing import IO, Any, Callable, Iterator

from . import reporting

_ALIGN = 64  # bytes; arrays begin at multiples of this
_SMALL = 1 << 10  # bytes; smaller arrays are pickled
_LARGE = 1 << 20  # bytes; larger arrays are copied by two threads
_PIECE = 32 << 20  # bytes that a thread copies at once
_NOTICE = (1 << 62) - 1  # the round of the last snapshot, larger than any other
_FOLDER = "tierml-"


def _torch() -> ModuleType | None:
    return sys.modules.get("torch")


def _numpy() -> ModuleType | None:
    return sys.modules.get("numpy")


class _Pickler(pickle.Pickler):
    """Takes large arrays out of the graph."""

    def __init__(self, file: IO[bytes], arrays: _Memory) -> None:
        super().__init__(file, protocol=4)
        self.arrays = arrays

    def _put(self, raw: memoryview) -> int:
        self.arrays.write(b"\0" * (-self.arrays.tell() % _ALIGN))
        at = self.arrays.tell()
        self.arrays.write(raw)
        return at

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        torch, numpy = _torch(), _numpy()
        if torch is not None and isinstance(obj, torch.Tensor) and obj.layout == torch.strided and not obj.is_quantized:
            tensor = obj.detach().cpu().contiguous()
            if tensor.numel() * tensor.element_size() < _SMALL:
                return None
            raw = tensor.reshape(-1).view(torch.uint8).numpy()
            return ("torch", self._put(memoryview(raw)), str(tensor.dtype)[len("torch."):], tuple(tensor.shape), obj.requires_grad)
        if numpy is not None and type(obj) is numpy.ndarray and not obj.dtype.hasobject and obj.nbytes >= _SMALL:
            array = numpy.ascontiguousarray(obj)
            return ("numpy", self._put(memoryview(array.reshape(-1).view(numpy.uint8))), numpy.lib.format.dtype_to_descr(array.dtype), array.shape)
        return None


class _Memory:
    """A file in memory, to which the same sizes are written each time: it reuses its memory, because allocation would take most of a copy's time."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = []
        self._copies: list[tuple[bytearray, memoryview]] = []  # that finish makes
        self.rewind()

    def rewind(self) -> None:
        self._used = self._at = 0

    def tell(self) -> int:
        return self._at

    def write(self, data: bytes | memoryview) -> None:
        raw = memoryview(data)
        if self._used == len(self._parts):
            self._parts.append(bytearray(raw))
        elif len(self._parts[self._used]) != raw.nbytes:
            self._parts[self._used] = bytearray(raw)
        elif raw.nbytes >= _LARGE:
            self._copies.append((self._parts[self._used], raw))
        else:
            memoryview(self._parts[self._used])[:] = raw.cast("B")
        self._used += 1
        self._at += raw.nbytes

    def finish(self) -> None:
        """Copies the large arrays with two threads: one cannot use the whole memory bandwidth."""
        pieces = collections.deque((part, raw, begin) for part, raw in self._copies for begin in range(0, len(part), _PIECE))
        self._copies = []
        if pieces:
            with concurrent.futures.ThreadPoolExecutor(1) as other:
                rest = other.submit(_copy_pieces, pieces)
                _copy_pieces(pieces)
                rest.result()

    def write_to(self, file: IO[bytes]) -> None:
        for part in self._parts[: self._used]:
            file.write(part)

    def free(self) -> None:
        self._parts, self._copies = [], []
        self.rewind()


def _copy_pieces(pieces: collections.deque[tuple[bytearray, memoryview, int]]) -> None:
    """Copies pieces until none is left. Several threads share them, so that one on a busy processor copies fewer."""
    while True:
        try:
            part, raw, begin = pieces.popleft()
        except IndexError:
            return
        end = min(begin + _PIECE, len(part))
        if raw.readonly:
            memoryview(part)[begin:end] = raw.cast("B")[begin:end]
        else:
            chars = ctypes.c_char * (end - begin)
            ctypes.memmove(chars.from_buffer(part, begin), chars.from_buffer(raw, begin), end - begin)  # other threads run meanwhile


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], arrays: io.BufferedReader) -> None:
        super().__init__(file)
        self.arrays = arrays

    def _bytes(self, at: int, size: int) -> bytearray:
        self.arrays.seek(at)
        raw = bytearray(size)
        if self.arrays.readinto(raw) != size:
            raise pickle.UnpicklingError("the file of arrays is cut short")
        return raw

    def persistent_load(self, pid: Any) -> Any:
        kind, at, form, shape = pid[:4]
        count = 1
        for n in shape:
            count *= n
        if kind == "torch":
            import torch

            dtype = getattr(torch, form)
            size = torch.empty((), dtype=dtype).element_size()
            tensor = torch.frombuffer(self._bytes(at, count * size), dtype=dtype).reshape(shape)
            return tensor.requires_grad_() if pid[4] else tensor
        import numpy

        formats: Any = numpy.lib.format  # some versions lack its types
        dtype = formats.descr_to_dtype(form)
        return numpy.frombuffer(self._bytes(at, count * dtype.itemsize), dtype=dtype).reshape(shape)


def _get(obj: Any) -> Any:
    """The state of an object to keep."""
    numpy = _numpy()
    if hasattr(obj, "state_dict") and hasattr(obj, "load_state_dict"):
        return obj.state_dict()
    if numpy is not None and isinstance(obj, numpy.random.Generator):
        return obj.bit_generator.state
    if numpy is not None and isinstance(obj, numpy.random.RandomState):
        return obj.get_state()
    if isinstance(obj, random.Random):
        return obj.getstate()
    if isinstance(obj, (dict, list)) or numpy is not None and isinstance(obj, numpy.ndarray):
        return obj
    torch = _torch()
    if torch is not None and isinstance(obj, torch.Generator):
        return obj.get_state()
    if torch is not None and isinstance(obj, torch.Tensor):
        return obj
    if hasattr(obj, "__dict__") and not isinstance(obj, type) and not callable(obj):
        return vars(obj)
    raise TypeError(f"tierml.keep cannot keep a {type(obj).__name__}: give it an object with state_dict() and load_state_dict(), an array, a dict, a list, or an object with attributes")


def _set(obj: Any, value: Any) -> None:
    """Restore an object's state."""
    numpy, torch = _numpy(), _torch()
    if hasattr(obj, "state_dict") and hasattr(obj, "load_state_dict"):
        obj.load_state_dict(value)
    elif numpy is not None and isinstance(obj, numpy.random.Generator):
        obj.bit_generator.state = value
    elif numpy is not None and isinstance(obj, numpy.random.RandomState):
        obj.set_state(value)
    elif isinstance(obj, random.Random):
        obj.setstate(value)
    elif isinstance(obj, dict):
        obj.clear()
        obj.update(value)
    elif isinstance(obj, list):
        obj[:] = value
    elif numpy is not None and isinstance(obj, numpy.ndarray):
        obj[...] = value
    elif torch is not None and isinstance(obj, torch.Generator):
        obj.set_state(value)
    elif torch is not None and isinstance(obj, torch.Tensor):
        with torch.no_grad():
            obj.copy_(value)
    else:
        vars(obj).clear()
        vars(obj).update(value)


def _generators() -> dict[str, Any]:
    """The states of the global random number generators."""
    states: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = _numpy(), _torch()
    if numpy is not None:
        states["numpy"] = numpy.random.get_state()
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def _set_generators(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "torch" in states:
        import torch

        torch.set_rng_state(states["torch"])
        if "cuda" in states and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(states["cuda"])


def _agree(value: int) -> int:
    """The largest value of all ranks, if they are connected by torch.distributed."""
    torch = _torch()
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return value
    if torch.distributed.get_world_size() == 1:
        return value
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    largest = torch.tensor([value], dtype=torch.int64, device=device)
    torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX)
    return int(largest.item())


class Kept:
    """The kept objects, and `step`, the number of steps done. Made by keep()."""

    step: int

    def __init__(self, objects: dict[str, Any], agree: Callable[[int], int] | None) -> None:
        self.step = 0
        self._objects = objects
        self._agree = agree or _agree
        self._dir = os.environ.get("TIERML_STATE", "")
        self._round = 0
        self._asked: tuple[tuple[int, int] | None, int] = (None, 0)  # the file with the requested round when last read, and the round
        self._handler: Any = None
        self._arrays = _Memory()
        self._writer: threading.Thread | None = None  # writes a snapshot
        self._failure: BaseException | None = None  # its error
        if not self._dir:
            if os.environ.get("TIERML_RUN"):
                raise RuntimeError("tierml.keep has nowhere to keep anything: add `state: {dir: state}` to the job file")
            return
        for obj in objects.values():
            _get(obj)  # objects that cannot be kept fail now, not at the first notice
        os.makedirs(self._dir, exist_ok=True)
        self._restore()
        self._tell(0, self.step)
        self._copy()  # makes room for the first snapshot before the first step
        # SIGTERM would end the program in the middle of a step.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._handler = signal.signal(signal.SIGTERM, lambda *_: None)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, failed: type[BaseException] | None = None, error: BaseException | None = None, trace: TracebackType | None = None) -> None:
        try:
            self._wait()
        except Exception:
            if failed is None:
                raise
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None

    def steps(self, n: int) -> Iterator[int]:
        """The steps from the first that is not done to n-1. One run of the loop's body is one step."""
        while self.step < n:
            yield self.step
            self.done()
        if self._dir:
            self._snapshot(self._round)  # a program that is started again is found finished
            self._wait()

    def done(self) -> None:
        """A step is done, and the objects reflect it. Snapshots are taken here, and after a notice the program ends here."""
        self.step += 1
        if not reporting.named:
            reporting.write(self.step)
        if not self._dir:
            return
        mine = 0
        if reporting.ending():
            mine = _NOTICE
        elif self._writer is None or not self._writer.is_alive():
            mine = self._wanted()
        wanted = self._agree(mine)
        if wanted <= self._round:
            return
        self._snapshot(wanted)
        if wanted == _NOTICE:
            self._wait()
            # The other ranks end on request: only this one's machine is going away.
            while mine != _NOTICE and not reporting.ending():
                time.sleep(0.02)
            sys.exit(143)  # as after SIGTERM

    def _wanted(self) -> int:
        """The round of the snapshot that the machine requests."""
        name = os.environ.get("TIERML_SAVE_FILE")
        if name is None:
            return 0
        try:
            now = os.stat(name)
        except FileNotFoundError:
            return 0
        if (now.st_ino, now.st_mtime_ns) != self._asked[0]:
            with open(name, encoding="ascii") as f:
                self._asked = ((now.st_ino, now.st_mtime_ns), int(f.read()))
        return self._asked[1]

    def _tell(self, number: int, step: int) -> None:
        name = os.environ.get("TIERML_KEPT_FILE")
        if not name:
            return
        with open(name + ".new", "w", encoding="ascii") as f:
            json.dump({"round": min(number, _NOTICE), "step": step}, f)
        os.replace(name + ".new", name)

    def _snapshots(self) -> list[str]:
        """The folders of complete snapshots, the newest last."""
        names = [n for n in os.listdir(self._dir) if n.startswith(_FOLDER) and n[len(_FOLDER):].isdigit()]
        return [os.path.join(self._dir, n) for n in sorted(names, key=lambda n: int(n[len(_FOLDER):]))]

    def _copy(self) -> memoryview:
        """Copies the objects, and returns the graph. The arrays are in self._arrays."""
        self._arrays.rewind()
        # The generators come last, so that large objects keep their offsets in the file.
        graph = {"version": 1, "step": self.step, "objects": {n: _get(o) for n, o in self._objects.items()}, "generators": _generators()}
        pickled = io.BytesIO()
        try:
            _Pickler(pickled, self._arrays).dump(graph)
            self._arrays.finish()
        except MemoryError as e:
            self._arrays.free()
            raise MemoryError("tierml.keep copies what it keeps before it is written: there is too little memory for the copy") from e
        return pickled.getbuffer()

    def _snapshot(self, number: int) -> None:
        """Takes a snapshot. When it returns, the objects may change; _wait waits until it is written."""
        self._wait()
        self._round = number
        folder, step = os.path.join(self._dir, f"{_FOLDER}{self.step:012d}"), self.step
        graph = None if os.path.isdir(folder) else self._copy()

        def write() -> None:
            try:
                if graph is not None:
                    self._write(folder, graph)
                self._tell(number, step)
                for old in self._snapshots()[:-1]:
                    shutil.rmtree(old, ignore_errors=True)
            except BaseException as e:
                self._failure = e

        self._writer = threading.Thread(target=write, name="tierml.keep")
        self._writer.start()

    def _write(self, folder: str, graph: memoryview) -> None:
        scratch = os.path.join(self._dir, f"{_FOLDER}snapshot.tmp")
        shutil.rmtree(scratch, ignore_errors=True)
        os.mkdir(scratch)
        with open(os.path.join(scratch, "arrays"), "wb") as f:
            self._arrays.write_to(f)
        with open(os.path.join(scratch, "graph"), "wb") as f:
            f.write(graph)
        os.rename(scratch, folder)

    def _wait(self) -> None:
        """Waits until the last snapshot is written."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _restore(self) -> None:
        there = self._snapshots()
        if not there:
            return
        with open(os.path.join(there[-1], "graph"), "rb") as f, open(os.path.join(there[-1], "arrays"), "rb") as arrays:
            graph = _Unpickler(io.BytesIO(f.read()), arrays).load()
        if graph["version"] != 1:
            raise RuntimeError(f"{there[-1]} was written by a newer version of tierml")
        if graph["objects"].keys() != self._objects.keys():
            raise RuntimeError(
                f"the snapshot of step {graph['step']} has the objects {', '.join(graph['objects'])}, but tierml.keep was called with {', '.join(self._objects)}"
            )
        for name, obj in self._objects.items():
            _set(obj, graph["objects"][name])
        _set_generators(graph["generators"])
        self.step = graph["step"]


def keep(*objects: Any, agree: Callable[[int], int] | None = None, **named: Any) -> Kept:
    """Keep objects: restore them if this program was interrupted, and take snapshots of them from now on.

        with tierml.keep(model, optimizer, scheduler, history=history) as kept:
            for step in kept.steps(1000):
                ...

    Each is an object with state_dict() and load_state_dict(), a numpy array, a torch tensor, a dict, a list, a random number generator, or any object
    whose state is its attributes, like scikit-learn's estimators. The global generators of random, numpy.random and torch are kept, too.

    With several ranks, all take their snapshots at the same step: torch.distributed is used if it is initialised; otherwise give `agree`, a function that
    returns the largest of all ranks' integers.
    """
    return Kept({**{str(i): o for i, o in enumerate(objects)}, **named}, agree)
