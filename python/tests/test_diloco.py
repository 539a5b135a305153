"""python3 -m unittest tests.test_diloco"""

import array
import json
import mmap
import os
import socket
import struct
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import tierml

JOB = {"every": 4, "rate": 0.7, "momentum": 0.9, "transport": "float32", "steps": 10, "floats": 100, "replicas": 2, "seed": 1, "deterministic": False}


class Agent(threading.Thread):
    """An agent that issues rounds of four steps, with the round's number as rows, and stores the deliveries."""

    def __init__(self, folder, rounds, word=lambda step: 0, **job):
        super().__init__(daemon=True)
        self.place, self.rounds, self.job, self.heard, self.deltas = os.path.join(folder, "s"), rounds, {**JOB, **job}, [], []
        self.initial = os.path.join(folder, "initial.safetensors")
        self.word = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.place)
        self.listener.listen()
        self.start()

    def run(self):
        conn, _ = self.listener.accept()
        with self.listener, conn, conn.makefile("r") as lines:
            try:
                self.serve(conn, lines)
            except BrokenPipeError:
                pass  # the program has ended

    def serve(self, conn, lines):
        def hear():
            self.heard.append(json.loads(lines.readline() or '{"type": "closed"}'))
            return self.heard[-1]

        def send(m, files=()):
            conn.sendmsg([json.dumps(m).encode() + b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else [])

        hello = hear()
        floats = sum(int(np.prod(t["shape"])) for t in hello["tensors"])
        row = 3 if floats < 1000 else 1000  # floats of the model; each row has one more
        area = -(-floats // row) * (row + 1)
        at = -(-(4096 + 4 * area) // 65536) * 65536
        where = np.arange(floats) + np.arange(floats) // row
        with tempfile.TemporaryFile() as f:
            f.truncate(at + 4 * area)
            memory = mmap.mmap(f.fileno(), 0)
            send({"type": "welcome", "job": self.job, "bytes": len(memory), "row": row, "initial": self.initial}, [f.fileno()])
        rows = np.frombuffer(memory, np.float32, area, 4096)
        delta = np.frombuffer(memory, np.float32, area, at)
        self.word = np.frombuffer(memory, np.uint32, 1)
        for n in range(1, self.rounds + 1):
            if hear()["type"] != "pull":
                return
            rows[:], rows[where] = np.nan, n
            send({"type": "round", "round": n, "number": n, "replica": 1, "first": 4 * (n - 1), "steps": 4})
            hear()
            self.deltas.append(delta[where])
        hear()
        send({"type": "bye"})
        hear()


class DiLoCo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.environ.pop, "TIERML_TIERS", None)

    def agent(self, rounds=3, **job):
        agent = Agent(self.folder.name, rounds, **job)
        os.environ["TIERML_TIERS"] = agent.place
        return agent

    def test_without_tierml_it_is_a_plain_loop(self):
        with tierml.DiLoCo({"w": np.zeros(3)}, every=4) as run:
            self.assertEqual([(s, run.step, run.round, run.replica) for s in run.steps(6)], [(s, s, s // 4 + 1, 0) for s in range(6)])
            run.progress(1.0)

    def test_rounds(self):
        agent, model = self.agent(), {"w": np.full((2, 2), 10, np.float32), "n": np.array([7]), "b": np.zeros(1, np.float64)}
        seen = []
        with tierml.DiLoCo(model, every=4) as run:
            for step in run.steps(10):
                seen.append((step, run.round, run.replica, float(model["w"][0, 0])))
                model["w"] -= 1
                run.progress(2.0)
                run.progress(float("nan"))
        agent.join(10)
        self.assertEqual(seen, [(4 * n + i, n + 1, 1, 11 + n - i) for n in range(3) for i in range(4)])
        for delta in agent.deltas:
            self.assertEqual(delta.tolist(), [4, 4, 4, 4, 0])
        hello, pushes = agent.heard[0], [m for m in agent.heard if m["type"] == "push"]
        self.assertEqual([(t["name"], t["shape"]) for t in hello["tensors"]], [("w", [2, 2]), ("b", [1])])
        self.assertEqual((hello["every"], hello["total"]), (4, 10))
        self.assertEqual([(m["round"], m["number"], m["steps"], m["loss"], m["losses"]) for m in pushes], [(n, n, 4, 8.0, 4) for n in (1, 2, 3)])
        with open(agent.initial, "rb") as f:
            text = f.read()
        n, = struct.unpack("<Q", text[:8])
        header = json.loads(text[8:8 + n])
        self.assertEqual(header["n"], {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]})
        self.assertEqual(np.frombuffer(text, "<f4", 4, 8 + n + header["w"]["data_offsets"][0]).tolist(), [10] * 4)

    def test_an_array_that_the_script_replaces(self):
        agent, model = self.agent(), {"w": np.zeros(2, np.float32)}
        seen = []
        with tierml.DiLoCo(model) as run:
            for _ in run.steps():
                seen.append(float(model["w"][0]))
                model["w"] = model["w"] + np.float32(1)
        agent.join(10)
        self.assertEqual(seen, [n + i for n in (1, 2, 3) for i in range(4)])
        self.assertEqual([d.tolist() for d in agent.deltas], [[-4, -4]] * 3)

    def test_large_arrays_of_other_types(self):
        n = 3 * 65536 + 5
        for dtype in (np.float32, np.float64, np.float16):
            with self.subTest(dtype):
                self.setUp()
                agent, model = self.agent(2), {"w": np.zeros((5, n), dtype).T, "m": np.array([np.inf, 1], dtype)}
                with tierml.DiLoCo(model) as run:
                    for _ in run.steps():
                        model["w"] += 1
                agent.join(10)
                for delta in agent.deltas:
                    self.assertEqual((set(delta[:-2]), list(delta[-2:])), ({-4.0}, [0, 0]))

    def test_a_word_ends_the_round(self):
        agent = self.agent(1)
        done = 0
        with tierml.DiLoCo({"w": np.zeros(3, np.float32)}) as run:
            for step in run.steps():
                done += 1
                if done == 2:
                    agent.word[0] = 1
        agent.join(10)
        self.assertEqual([m["steps"] for m in agent.heard if m["type"] == "push"], [2])

    def test_a_notice_within_export(self):
        agent, model, path = self.agent(1), {"w": np.ones(3, np.float32)}, os.path.join(self.folder.name, "model.safetensors")
        replace = os.replace

        def noticed(source, target):
            if target == path:
                agent.word[0] = 1
                self.assertFalse(os.path.exists(path))
            replace(source, target)

        with mock.patch("os.replace", noticed), tierml.DiLoCo(model) as run:
            for step in run.steps():
                if step == 1:
                    run.export(path)
                    model["w"] += 1
        agent.join(10)
        self.assertEqual([m["steps"] for m in agent.heard if m["type"] == "push"], [2])  # the step finishes, and counts
        self.assertEqual(agent.deltas[0].tolist(), [-1] * 3)
        with open(path, "rb") as f:
            text = f.read()
        self.assertEqual(np.frombuffer(text[-12:], "<f4").tolist(), [2] * 3)  # the complete model of the step
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.endswith(".tmp")], [])

    def test_infinite_constants_do_not_move(self):
        agent, model = self.agent(1), {"mask": np.array([-np.inf, 0], np.float32), "w": np.zeros(1, np.float32)}
        with tierml.DiLoCo(model) as run:
            for _ in run.steps():
                model["w"] += 1
        agent.join(10)
        self.assertEqual(agent.deltas[0].tolist(), [0, 0, -4])

    def test_a_fresh_optimizer_in_each_round(self):
        agent = self.agent(2, deterministic=True)

        class Optimizer:
            count = 0

            def state_dict(self):
                return {"count": self.count}

            def load_state_dict(self, state):
                self.count = state["count"]

        optimizer, counts = Optimizer(), []
        with tierml.DiLoCo({"w": np.zeros(1, np.float32)}, optimizer) as run:
            for _ in run.steps():
                optimizer.count += 1
                counts.append(optimizer.count)
        agent.join(10)
        self.assertEqual(counts, [1, 2, 3, 4] * 2)

    def test_what_is_refused(self):
        for error, make in (
            ("every=0", lambda: tierml.DiLoCo({}, every=0)), ("momentum=1", lambda: tierml.DiLoCo({}, momentum=1)), ("transport='int4'", lambda: tierml.DiLoCo({}, transport="int4")),
            ("inner='x'", lambda: tierml.DiLoCo({}, inner="x")), ("needs the optimizer", lambda: tierml.DiLoCo({}, inner="reset")),
            ("c is complex", lambda: tierml.DiLoCo({"c": np.zeros(1, complex)})), ("a torch module or a dict", lambda: tierml.DiLoCo([1])),
            ("should be a numpy array", lambda: tierml.DiLoCo({"w": [1.0]})), ("steps\\(1000\\)", lambda: next(tierml.DiLoCo({}).steps())),
        ):
            with self.assertRaisesRegex((ValueError, TypeError), error):
                make()

    def test_two_contexts(self):
        with tierml.DiLoCo({}), self.assertRaisesRegex(RuntimeError, "in such a context already"):
            tierml.DiLoCo({}).__enter__()
        with tierml.DiLoCo({}):
            pass

    def test_a_model_that_changes_its_shape(self):
        self.agent(1)
        model = {"w": np.zeros(2, np.float32)}
        with self.assertRaisesRegex(RuntimeError, r"w was \('float32', \[2\]\) and is \('float32', \[3\]\)"), tierml.DiLoCo(model) as run:
            for _ in run.steps():
                model["w"] = np.zeros(3, np.float32)


if __name__ == "__main__":
    unittest.main()
