"""DiLoCo: replicas of a model that train by themselves for a while, and are averaged by TierML's parameter servers.

The script is started on every machine. A round is `every` steps: before it the replica takes the model that all have, after it, or at an
eviction notice, it delivers what it has moved by. Without TierML the same script is a plain loop. wire.md has the protocol.
"""

import array
import hashlib
import json
import mmap
import os
import socket
import struct
import sys

VERSION = 1
_PAGE = 4096
_WORK, _DELIVER, _LEAVE = 0, 1, 2  # the first word of the shared memory
_MOST_LINE = 16 << 20

_in_use = False  # a process has one context


class DiLoCo:
    """A context in which a module's parameters are exchanged with the other replicas.

        with tierml.DiLoCo(model, optimizer, every=50) as run:
            for step in run.steps(20_000):
                x, y = data[run.replica, step]
                ...
                optimizer.step()
                run.progress(loss)

    `module` is a torch module, or a dict of float numpy arrays, which are changed in place. Parameters that are not frozen, and float buffers of
    the state_dict, travel as float32; integer buffers stay as each replica has them. `optimizer` is needed with `inner="reset"` only: its state is then fresh in each round, as
    deterministic jobs have it. `every`, `rate`, `momentum` and `transport` are the job file's; given here too, they must be equal.
    """

    def __init__(self, module, optimizer=None, *, every=None, rate=None, momentum=None, transport=None, inner=None):
        for name, value, right in (("every", every, every is None or every >= 1), ("rate", rate, rate is None or rate > 0),
                                   ("momentum", momentum, momentum is None or 0 <= momentum < 1)):
            if not right:
                raise ValueError(f"tierml.DiLoCo: {name}={value!r} is out of range")
        if transport not in (None, "float32"):
            raise ValueError(f"tierml.DiLoCo: transport={transport!r}: there is \"float32\"")
        if inner not in (None, "keep", "reset"):
            raise ValueError(f"tierml.DiLoCo: inner={inner!r}: there are \"keep\" and \"reset\"")
        if inner == "reset" and optimizer is None:
            raise ValueError("tierml.DiLoCo: inner=\"reset\" needs the optimizer")
        self._module, self._optimizer = module, optimizer
        self._tensors = _tensors(module)
        self._said = {"every": every, "rate": rate, "momentum": momentum, "transport": transport}
        self._inner = inner
        self._link = None
        self.replica, self.replicas = 0, 1
        self.round, self.step = 0, 0
        self._every = every or 50
        self._losses = []

    def __enter__(self):
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

    def __exit__(self, kind, error, trace):
        global _in_use
        _in_use = False
        if self._link is not None:
            self._link.close()
            self._link = None

    def steps(self, n=None):
        """The steps of this replica, from where all stand to n - 1; on TierML n may be left out, as the job file has it."""
        if self._link is None:
            if n is None:
                raise ValueError("tierml.DiLoCo: without TierML say how many steps: steps(1000)")
            for self.step in range(n):
                self.round = self.step // self._every + 1
                yield self.step
                self._losses.clear()
            return
        yield from self._rounds(n)

    def _rounds(self, n):
        began = self._flat(None)
        job = self._greet(n, began)
        if job["deterministic"] and self._inner == "keep":
            raise ValueError("tierml.DiLoCo: the job is deterministic, which needs inner=\"reset\"")
        reset = job["deterministic"] or self._inner == "reset"
        if reset and self._optimizer is None:
            raise ValueError("tierml.DiLoCo: a deterministic job needs the optimizer: its state is fresh in each round")
        fresh = _state_of(self._optimizer) if reset else None
        self.replicas, self._every = job["replicas"], job["every"]
        rows, delta, start = self._link.rows, self._link.delta, None
        while True:
            order = self._link.pull()
            if order is None:
                return
            self.round, self.replica = order["round"], order["replica"]
            self._losses.clear()
            if reset:
                self._optimizer.load_state_dict(_copied(fresh))
            start = _add(began, rows, start)
            self._load(start)
            done, word = 0, _WORK
            for self.step in range(order["first"], order["first"] + order["steps"]):
                yield self.step
                done += 1
                word = self._link.word()
                if word != _WORK:
                    break
            self._unchanged()
            self._flat(delta)
            _subtract(start, delta)
            losses = [x for x in map(float, self._losses) if x - x == 0]
            self._link.push(order, done, sum(losses), len(losses))

    def _unchanged(self):
        """Refuse a module that is no longer the one of the hello."""
        before = {t.name: (t.type, t.shape) for t in self._tensors}
        now = {t.name: (t.type, t.shape) for t in _tensors(self._module)}
        for name in list(before) + list(now):
            if before.get(name) != now.get(name):
                raise RuntimeError(f"tierml.DiLoCo: {name} was {before.get(name, 'not there or frozen')} and is {now.get(name, 'gone or frozen')}: "
                                   "build the whole model, and freeze what is not trained, before the context")

    def _greet(self, n, began):
        hello = {"type": "hello", "version": VERSION, "tensors": [{"name": t.name, "type": t.type, "shape": t.shape} for t in self._tensors],
                 "digest": hashlib.sha256(began).hexdigest(), "total": n or 0}
        hello.update((name, value) for name, value in self._said.items() if value is not None)
        welcome = self._link.greet(hello, sum(t.size for t in self._tensors))
        if welcome.get("initial"):
            self._write(welcome["initial"])
        return welcome["job"]

    def progress(self, loss=None):
        """Say what a step's loss was. A torch scalar is read at the round's end, so that a GPU does not wait."""
        if loss is not None:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else float(loss))

    def export(self, path):
        """Write the present model as safetensors, with torch's names."""
        self._write(path)

    def _write(self, path):
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

    def _flat(self, into):
        """All floats of the tensors that travel, one after the other."""
        np = _numpy()
        if into is None:
            into = np.empty(sum(t.size for t in self._tensors), np.float32)
        at = 0
        for t in self._tensors:
            into[at:at + t.size] = t.get()
            at += t.size
        return into

    def _load(self, flat):
        at = 0
        for t in self._tensors:
            t.set(flat[at:at + t.size])
            at += t.size


def _tensors(module):
    return _numpy_tensors(module) if isinstance(module, dict) else _torch_tensors(module)


class _Tensor:
    """A tensor that travels: get returns its values as flat float32, set takes such."""

    def __init__(self, name, kind, shape, get, set_):
        self.name, self.type, self.shape, self.get, self.set = name, kind, list(shape), get, set_
        self.size = 1
        for n in shape:
            self.size *= n


def _numpy():
    try:
        import numpy
    except ImportError:
        raise RuntimeError("tierml.DiLoCo needs numpy: add pip install numpy to the job's setup") from None
    return numpy


def _numpy_tensors(module):
    np = _numpy()
    tensors = []
    for name, a in module.items():
        if not isinstance(a, np.ndarray):
            raise TypeError(f"tierml.DiLoCo: {name} is a {type(a).__name__}, and should be a numpy array")
        if a.dtype.kind == "c":
            raise TypeError(f"tierml.DiLoCo: {name} is complex: give its real and imaginary parts as two arrays")
        if a.dtype.kind != "f":
            continue

        def set_(flat, a=a):
            a[...] = flat.reshape(a.shape)

        tensors.append(_Tensor(name, str(a.dtype), a.shape, lambda a=a: a.reshape(-1), set_))
    return tensors


def _torch_tensors(module):
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise TypeError(f"tierml.DiLoCo takes a torch module or a dict of numpy arrays, not a {type(module).__name__}")
    tensors, seen, kept = [], set(), module.state_dict()
    for name, p in list(module.named_parameters()) + list(module.named_buffers()):
        if id(p) in seen or name not in kept or isinstance(p, torch.nn.Parameter) and not p.requires_grad:
            continue  # shared, made anew by every process, or frozen
        seen.add(id(p))
        if p.is_complex():
            raise TypeError(f"tierml.DiLoCo: {name} is complex: keep its real and imaginary parts as two parameters")
        if p.is_sparse or p.layout != torch.strided or p.is_quantized:
            raise TypeError(f"tierml.DiLoCo: {name} is sparse or quantised: only dense float tensors can be averaged")
        if not p.is_floating_point():
            continue

        def get(p=p):
            return p.detach().to("cpu", torch.float32).contiguous().view(-1).numpy()

        def set_(flat, p=p):
            with torch.no_grad():
                p.copy_(torch.from_numpy(flat).view(p.shape))

        tensors.append(_Tensor(name, str(p.dtype).replace("torch.", ""), p.shape, get, set_))
    return tensors


def _entries(module):
    """The tensors of an export, by name: (name, type, shape, function that returns the bytes). Floats as F32, whole numbers as I64."""
    np = _numpy()
    entries = []
    for name, t in sorted((module if isinstance(module, dict) else module.state_dict()).items()):
        def values(t=t):
            return t.detach().to("cpu").float().numpy() if hasattr(t, "detach") and t.is_floating_point() else (
                t.detach().to("cpu").numpy() if hasattr(t, "detach") else t)

        floats = t.is_floating_point() if hasattr(t, "detach") else t.dtype.kind == "f"
        form = "<f4" if floats else "<i8"
        entries.append((name, "F32" if floats else "I64", list(t.shape),
                        lambda values=values, form=form: np.ascontiguousarray(values(), form).tobytes()))
    return entries


def _state_of(optimizer):
    return _copied(optimizer.state_dict())


def _copied(state):
    import copy
    return copy.deepcopy(state)


def _add(began, rows, out):
    """began + rows, in memory that is used again."""
    return _numpy().add(began, rows, out=out)


def _subtract(start, delta):
    """What the model has moved by, as a gradient: start - end, in the place of the end."""
    np = _numpy()
    still = None if np.isfinite(delta).all() else start == delta  # a constant that is infinite has not moved
    with np.errstate(invalid="ignore"):
        np.subtract(start, delta, out=delta)
    if still is not None:
        delta[still] = 0


class _Link:
    """The connection to the machine's agent."""

    def __init__(self, place):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(place)
        self._rest, self._over = b"", False
        self.rows = self.delta = self._memory = None

    def _send(self, message):
        self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def _receive(self):
        """The next message; None when the agent is gone."""
        while b"\n" not in self._rest:
            part = self._socket.recv(1 << 16)
            if not part:
                return None
            self._rest += part
        return self._line()

    def _line(self):
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def greet(self, hello, floats):
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
        welcome = self._line()
        if welcome["type"] != "welcome" or file is None:
            raise RuntimeError("tierml.DiLoCo: " + welcome.get("why", "the machine's agent did not answer with a welcome"))
        self._memory = mmap.mmap(file, welcome["bytes"])
        os.close(file)
        np = _numpy()
        self.rows = np.frombuffer(self._memory, np.float32, floats, _PAGE)
        self.delta = np.frombuffer(self._memory, np.float32, floats, _PAGE + 4 * floats)
        self._words = np.frombuffer(self._memory, np.uint32, 1)
        return welcome

    def word(self):
        return int(self._words[0])

    def pull(self):
        """The next round; None when there is none."""
        self._send({"type": "pull"})
        order = self._receive()
        if order is None or order.get("why"):
            raise RuntimeError("tierml.DiLoCo: " + (order["why"] if order else "the machine's agent has closed the connection"))
        return None if order["type"] == "bye" else order

    def push(self, order, steps, loss, losses):
        self._send({"type": "push", "round": order["round"], "number": order["number"], "steps": steps, "loss": loss, "losses": losses})

    def close(self):
        try:
            self._send({"type": "bye"})
        except OSError:
            pass  # the agent has ended
        self._socket.close()
