"""DiLoCo: replicas of a model that train independently for a while; TierML's parameter servers average them.

The script runs on every machine. A round is `every` steps: before it, the replica takes the common model; after it, or at an eviction notice, the
replica delivers its change. Without TierML the same script is a plain loop. wire.md has the protocol.
"""

from __future__ import annotations

import array
import copy
import hashlib
import json
import math
import mmap
import os
import socket
import struct
import sys
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol, SupportsFloat

if TYPE_CHECKING:  # neither is needed to import the package
    import numpy as np
    import numpy.typing as npt
    import torch

    Floats = npt.NDArray[np.float32]  # one after the other: shape [n]

VERSION = 2
_PAGE = 4096
_ALIGN = 1 << 16  # of the delta in the shared memory
_WORK, _DELIVER, _LEAVE = 0, 1, 2  # the first word of the shared memory

_in_use = False  # a process has at most one context


class Stateful(Protocol):
    """The methods of an optimizer that DiLoCo needs: all of torch's have them."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class DiLoCo:
    """A context in which the replicas exchange a module's parameters.

        with tierml.DiLoCo(model, optimizer, every=50) as run:
            for step in run.steps(20_000):
                x, y = data[run.replica, step]
                ...
                optimizer.step()
                run.progress(loss)

    `module` is a torch module, or a dict of float numpy arrays, which are changed in place. Parameters that are not frozen, and float buffers of
    the state_dict, travel as float32; integer buffers stay local to each replica. `optimizer` is needed only with `inner="reset"`: its state is then
    fresh in each round, as in deterministic jobs. `every` (steps of a round), `rate`, `momentum` and `transport` come from the job file; if also
    given here, they must be equal.

    Within steps(), `step` is the current step, counted from 0 over the whole run, `round` its round, from 1, and `replica` this machine's number
    among the `replicas`, from 0.
    """

    replica: int
    replicas: int
    round: int
    step: int

    def __init__(
        self,
        module: torch.nn.Module | dict[str, npt.NDArray[Any]],
        optimizer: Stateful | None = None,
        *,
        every: int | None = None,
        rate: float | None = None,
        momentum: float | None = None,
        transport: str | None = None,
        inner: str | None = None,
    ) -> None:
        for name, value, right in (("every", every, every is None or every >= 1), ("rate", rate, rate is None or rate > 0),
                                   ("momentum", momentum, momentum is None or 0 <= momentum < 1)):
            if not right:
                raise ValueError(f"tierml.DiLoCo: {name}={value!r} is out of range")
        if transport not in (None, "float32", "bf16", "int8"):
            raise ValueError(f"tierml.DiLoCo: transport={transport!r}: there are \"float32\", \"bf16\" and \"int8\"")
        if inner not in (None, "keep", "reset"):
            raise ValueError(f"tierml.DiLoCo: inner={inner!r}: there are \"keep\" and \"reset\"")
        if inner == "reset" and optimizer is None:
            raise ValueError("tierml.DiLoCo: inner=\"reset\" needs the optimizer")
        self._module, self._optimizer = module, optimizer
        self._tensors = _tensors(module)
        self._said = {"every": every, "rate": rate, "momentum": momentum, "transport": transport}
        self._inner = inner
        self._link: _Link | None = None
        self.replica, self.replicas = 0, 1
        self.round, self.step = 0, 0
        self._every = every or 50
        self._losses: list[SupportsFloat] = []

    def __enter__(self) -> DiLoCo:
        global _in_use
        if _in_use:
            raise RuntimeError("tierml.DiLoCo: this process is in such a context already: use one for all parameters")
        _in_use = True
        place = os.environ.get("TIERML_TIERS")
        if place:
            try:
                self._link = _Link(place)
            except BaseException:
                _in_use = False
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _in_use
        _in_use = False
        if self._link is not None:
            self._link.close()
            self._link = None

    def steps(self, n: int | None = None) -> Iterator[int]:
        """The steps of this replica, from the common progress to n - 1; on TierML n may be omitted, as the job file has it."""
        if self._link is None:
            if n is None:
                raise ValueError("tierml.DiLoCo: without TierML say how many steps: steps(1000)")
            for self.step in range(n):
                self.round = self.step // self._every + 1
                yield self.step
                self._losses.clear()
            return
        yield from self._rounds(self._link, n)

    def _rounds(self, link: _Link, n: int | None) -> Iterator[int]:
        self._tensors = self._same()
        began = self._flat()
        job = self._greet(link, n, began)
        if job["deterministic"] and self._inner == "keep":
            raise ValueError("tierml.DiLoCo: the job is deterministic, which needs inner=\"reset\"")
        reset = job["deterministic"] or self._inner == "reset"
        if reset and self._optimizer is None:
            raise ValueError("tierml.DiLoCo: a deterministic job needs the optimizer: its state is fresh in each round")
        fresh = copy.deepcopy(self._optimizer.state_dict()) if reset and self._optimizer is not None else None
        self.replicas, self._every = job["replicas"], job["every"]
        finite = _numpy().isfinite(began)
        constant = None if finite.all() else ~finite  # such values stay unchanged, or the agent refuses them
        while True:
            order = link.pull()
            if order is None:
                return
            self.round, self.replica = order["round"], order["replica"]
            self._losses.clear()
            if reset and self._optimizer is not None:
                self._optimizer.load_state_dict(copy.deepcopy(fresh))
            self._load(began, link)
            done, word = 0, _WORK
            for self.step in range(order["first"], order["first"] + order["steps"]):
                yield self.step
                done += 1
                word = link.word()
                if word != _WORK:
                    break
            self._tensors = self._same()
            self._move(began, constant, link)
            losses = [x for x in map(float, self._losses) if x - x == 0]
            link.push(order, done, sum(losses), len(losses))

    def _same(self) -> list[_Tensor]:
        """The module's present tensors: the script may have replaced them, but they must match those of the hello."""
        tensors = _tensors(self._module)
        if [t.kind for t in tensors] == [t.kind for t in self._tensors]:
            return tensors
        before, now = ({t.name: (t.type, t.shape) for t in ts} for ts in (self._tensors, tensors))
        for name in [*before, *now]:
            if before.get(name) != now.get(name):
                raise RuntimeError(f"tierml.DiLoCo: {name} was {before.get(name, 'not there or frozen')} and is {now.get(name, 'gone or frozen')}: "
                                   "build the whole model, and freeze what is not trained, before the context")
        raise RuntimeError("tierml.DiLoCo: the module's tensors are in another order than before: build the whole model before the context")

    def _greet(self, link: _Link, n: int | None, began: Floats) -> dict[str, Any]:
        hello: dict[str, Any] = {
            "type": "hello",
            "version": VERSION,
            "tensors": [{"name": t.name, "type": t.type, "shape": t.shape} for t in self._tensors],
            "digest": hashlib.sha256(began.data).hexdigest(),
            "total": n or 0,
        }
        hello.update((name, value) for name, value in self._said.items() if value is not None)
        welcome = link.greet(hello, sum(t.size for t in self._tensors))
        if welcome.get("initial"):
            self.export(welcome["initial"])
        job: dict[str, Any] = welcome["job"]
        return job

    def progress(self, loss: SupportsFloat | None = None) -> None:
        """Report a step's loss: a number, or a tensor of one element, which is read at the round's end, so that a GPU does not wait."""
        if loss is not None:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else float(loss))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the present model as safetensors, with torch's names and shapes: floats as F32, whole numbers as I64. The file is written
        atomically."""
        entries = _entries(self._module)
        header, at = {}, 0
        for name, kind, shape, read in entries:
            size = len(read())
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        scratch = f"{path}.{os.getpid()}.tmp"
        with open(scratch, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for _, _, _, read in entries:
                f.write(read())
        os.replace(scratch, path)

    def _flat(self) -> Floats:
        """A copy of all floats that travel, one tensor after the other."""
        np = _numpy()
        flat: Floats = np.concatenate([np.zeros(0, np.float32), *(t.get() for t in self._tensors)], dtype=np.float32, casting="same_kind")
        return flat

    def _load(self, began: Floats, link: _Link) -> None:
        """Sets the model to the common one: its initial values plus all changes since."""
        np, at = _numpy(), 0
        for t in self._tensors:
            values = t.get()
            for here, place in link.pieces(at, t.size):
                np.add(began[here], link.rows[place], out=values[here.start - at:here.stop - at])
            t.put(values)
            at += t.size

    def _move(self, began: Floats, constant: npt.NDArray[np.bool_] | None, link: _Link) -> None:
        """Delivers the model's change since _load as a gradient: before minus after."""
        np, at = _numpy(), 0
        for t in self._tensors:
            values = t.get()
            for here, place in link.pieces(at, t.size):
                after, moved = values[here.start - at:here.stop - at], link.delta[place]
                np.add(began[here], link.rows[place], out=moved)
                if constant is not None:
                    still = constant[here] & (moved == after)
                    moved[still], after = 0, np.where(still, 0, after)
                np.subtract(moved, after, out=moved, casting="same_kind")
            at += t.size


def _tensors(module: Any) -> list[_Tensor]:
    return _numpy_tensors(module) if isinstance(module, dict) else _torch_tensors(module)


class _Tensor:
    """A tensor that travels. get returns its values as a flat array of floats, in the tensor's own memory if possible; put sets them."""

    def __init__(self, name: str, dtype: Any, shape: Any, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.name, self.kind, self.get, self.put = name, (name, dtype, shape), get, put
        self.size: int = math.prod(shape)

    @property
    def type(self) -> str:
        return str(self.kind[1]).replace("torch.", "")

    @property
    def shape(self) -> list[int]:
        return list(self.kind[2])


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError:
        raise RuntimeError("tierml.DiLoCo needs numpy: add pip install numpy to the job's setup") from None
    return numpy


def _numpy_tensors(module: dict[str, Any]) -> list[_Tensor]:
    np, tensors = _numpy(), []
    for name, a in module.items():
        if not isinstance(a, np.ndarray):
            raise TypeError(f"tierml.DiLoCo: {name} is a {type(a).__name__}, and should be a numpy array")
        if a.dtype.kind == "c":
            raise TypeError(f"tierml.DiLoCo: {name} is complex: give its real and imaginary parts as two arrays")
        if a.dtype.kind != "f":
            continue

        def put(values: Any, a: Any = a) -> None:
            if not np.may_share_memory(values, a):
                a[...] = values.reshape(a.shape)

        def get(a: Any = a) -> Any:
            return a.reshape(-1)

        tensors.append(_Tensor(name, a.dtype, a.shape, get, put))
    return tensors


_DENSE = "only dense float tensors can be averaged"


def _torch_tensors(module: Any) -> list[_Tensor]:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise TypeError(f"tierml.DiLoCo takes a torch module or a dict of numpy arrays, not a {type(module).__name__}")
    kept = module.state_dict()
    for name, value in kept.items():
        tensor = isinstance(value, torch.Tensor)
        if tensor and value.is_quantized or not tensor and "_packed_params" in name:
            raise TypeError(f"tierml.DiLoCo: {name} is quantised, and {_DENSE}: train the model as it was before, and quantise what the run exports")
        if tensor and value.layout != torch.strided:
            raise TypeError(f"tierml.DiLoCo: {name} is sparse, and {_DENSE}: store it as {name}.to_dense()")
    tensors: list[_Tensor] = []
    seen: set[int] = set()
    for name, p in [*module.named_parameters(), *module.named_buffers()]:
        if id(p) in seen or name not in kept or isinstance(p, torch.nn.Parameter) and not p.requires_grad:
            continue  # shared, recomputed by every process, or frozen
        seen.add(id(p))
        if p.is_complex():
            raise TypeError(f"tierml.DiLoCo: {name} is complex: keep its real and imaginary parts as two parameters")
        if not p.is_floating_point():
            continue

        def get(p: Any = p, torch: Any = torch) -> Any:
            return p.detach().to("cpu", torch.float32).contiguous().view(-1).numpy()

        def put(values: Any, p: Any = p, torch: Any = torch) -> None:
            if p.device.type != "cpu" or p.data_ptr() != values.ctypes.data:
                with torch.no_grad():
                    p.copy_(torch.from_numpy(values).view(p.shape))

        tensors.append(_Tensor(name, p.dtype, p.shape, get, put))
    return tensors


def _entries(module: Any) -> list[tuple[str, str, list[int], Callable[[], bytes]]]:
    """The tensors of an export, by name: (name, type, shape, function that returns the bytes). Floats as F32, whole numbers as I64."""
    np = _numpy()
    entries: list[tuple[str, str, list[int], Callable[[], bytes]]] = []
    for name, t in sorted((module if isinstance(module, dict) else module.state_dict()).items()):
        torch = hasattr(t, "detach")
        if not torch and not isinstance(t, np.ndarray):
            continue  # the file cannot hold state other than tensors
        floats = t.is_floating_point() if torch else t.dtype.kind == "f"

        def read(t: Any = t, torch: bool = torch, form: str = "<f4" if floats else "<i8") -> bytes:
            if torch:
                t = t.detach().to("cpu")
                t = (t.float() if form == "<f4" else t).numpy()
            raw: bytes = np.ascontiguousarray(t, form).tobytes()
            return raw

        entries.append((name, "F32" if floats else "I64", list(t.shape), read))
    return entries


class _Link:
    """The connection to the machine's agent."""

    def __init__(self, place: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(place)
        self._rest = self._pushed = b""

    def _send(self, message: dict[str, Any] | bytes) -> None:
        text = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._socket.sendall(self._pushed + text)
        self._pushed = b""

    def _receive(self) -> dict[str, Any] | None:
        """The next message; None if the agent has ended."""
        while b"\n" not in self._rest:
            part = self._socket.recv(1 << 16)
            if not part:
                return None
            self._rest += part
        return self._first()

    def _first(self) -> dict[str, Any]:
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line.decode())
        return message

    def greet(self, hello: dict[str, Any], floats: int) -> dict[str, Any]:
        self._send(hello)
        file, rights = None, socket.CMSG_SPACE(4)
        while b"\n" not in self._rest:
            part, ancillary, _, _ = self._socket.recvmsg(1 << 16, rights)
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    file = array.array("i", data[:4])[0]
            if not part:
                raise RuntimeError("tierml.DiLoCo: the machine's agent has closed the connection")
            self._rest += part
        welcome = self._first()
        if welcome["type"] != "welcome" or file is None:
            raise RuntimeError("tierml.DiLoCo: " + welcome.get("why", "the machine's agent did not answer with a welcome"))
        np = _numpy()
        self._row = int(welcome["row"])
        area = -(-floats // self._row) * (self._row + 1)
        at = -(-(_PAGE + 4 * area) // _ALIGN) * _ALIGN
        given = mmap.mmap(file, at, access=mmap.ACCESS_READ)  # a stray write must not change what a restarted program begins with
        self.rows: Floats = np.frombuffer(given, np.float32, area, _PAGE)
        self.delta: Floats = np.frombuffer(mmap.mmap(file, 4 * area, offset=at), np.float32)
        self._words = np.frombuffer(given, np.uint32, 1)
        os.close(file)
        return welcome

    def pieces(self, at: int, size: int) -> Iterator[tuple[slice, slice]]:
        """Where some of the model's floats are: in the model, and in rows and delta. A piece is within a row, and so fits a core's cache."""
        end = at + size
        while at < end:
            row = at // self._row
            n = min(end, (row + 1) * self._row) - at
            yield slice(at, at + n), slice(at + row, at + row + n)
            at += n

    def word(self) -> int:
        return int(self._words[0])

    def pull(self) -> dict[str, Any] | None:
        """The next round; None if there is none."""
        self._send(b'{"type":"pull"}\n')
        order = self._receive()
        if order is None or order.get("why"):
            raise RuntimeError("tierml.DiLoCo: " + (order["why"] if order else "the machine's agent has closed the connection"))
        return None if order["type"] == "bye" else order

    def push(self, order: dict[str, Any], steps: int, loss: float, losses: int) -> None:
        """The delta is in shared memory. The next message, which always follows, carries it."""
        text = f'{{"type":"push","round":{order["round"]},"number":{order["number"]},"steps":{steps},"loss":{loss!r},"losses":{losses}}}\n'
        self._pushed = text.encode()

    def close(self) -> None:
        try:
            self._send({"type": "bye"})
        except OSError:
            pass  # the agent has ended
        self._socket.close()
