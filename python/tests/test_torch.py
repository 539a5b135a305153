"""Tests that need torch: python3 -m unittest tests.test_torch"""

import json
import os
import socket
import tempfile
import unittest

import tierml
import torch

from . import test_tierml
from .test_diloco import Agent
from .test_tierml import Place, until


class Torch(test_tierml.Disturbed):
    """The same bytes at the end, on a processor with one thread."""

    def test_transformer(self):
        done = self.disturb("transformer.py", 40, [7, 11], warned=True)
        self.assertEqual(done, list(range(40)))
        self.assertEqual(self.result(), self.undisturbed("transformer.py", 40))

    def test_ranks_agree(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        places = [self.place, Place(self.place.path("other"))]
        os.mkdir(places[1].folder)
        children = [
            p.start("gang.py", 100000, RANK=str(i), WORLD_SIZE="2", TIERML_RANK=str(i), TIERML_RANKS="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            for i, p in enumerate(places)
        ]
        try:
            until(lambda: all(p.kept()["step"] >= 0 for p in places), "both ranks")
            places[1].write("save", "1\n")  # only one machine requests it, yet both have the snapshot
            until(lambda: all(p.kept()["round"] == 1 for p in places), "both snapshots")
            self.assertEqual(places[0].kept(), places[1].kept())
            places[0].write("notice", json.dumps({"kind": "eviction", "seconds": 30}))
            self.assertEqual(children[0].wait(60), 143)
            until(lambda: places[1].kept()["round"] > 1, "the last snapshot")
            self.assertIsNone(children[1].poll())  # its machine stays; it ends on request
            places[1].write("notice", json.dumps({"kind": "stop", "seconds": 30}))
            self.assertEqual(children[1].wait(60), 143)
            self.assertEqual(places[0].kept(), places[1].kept())
        finally:
            for c in children:
                c.kill()
                c.wait()


class Tensors(unittest.TestCase):
    """The tensors that DiLoCo takes from a module."""

    def refused(self, why, model):
        with self.assertRaisesRegex(TypeError, why):
            tierml.DiLoCo(model)

    def test_sparse(self):
        model = torch.nn.Linear(2, 2)
        model.register_buffer("graph", torch.eye(3).to_sparse())
        self.refused(r"graph is sparse, and only dense .*graph\.to_dense\(\)", model)
        model = torch.nn.Module()
        model.w = torch.nn.Parameter(torch.eye(3).to_sparse())
        self.refused(r"w is sparse", model)

    def test_quantised(self):
        model = torch.nn.Linear(2, 2)
        model.register_buffer("q", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
        self.refused(r"q is quantised, and only dense .* quantise what the run exports", model)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.refused(r"0\._packed_params\S* is quantised", torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}))

    def test_complex(self):
        model = torch.nn.Module()
        model.c = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
        self.refused("c is complex", model)

    def test_parameters_that_come_late(self):
        def add(model):
            model.late = torch.nn.Linear(1, 1)

        def freeze(model):
            model.weight.requires_grad = False

        for why, change in (("late.weight was not there or frozen and is", add), ("weight was .* and is gone or frozen", freeze)):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["TIERML_TIERS"] = Agent(folder, 1).place
                self.addCleanup(os.environ.pop, "TIERML_TIERS", None)
                model = torch.nn.Linear(2, 2)
                with self.assertRaisesRegex(RuntimeError, why + "[^:]*: build the whole model, and freeze"), tierml.DiLoCo(model) as run:
                    for _ in run.steps():
                        change(model)

    def test_rounds_of_all_kinds_of_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            agent = Agent(folder, 2)
            os.environ["TIERML_TIERS"] = agent.place
            self.addCleanup(os.environ.pop, "TIERML_TIERS")
            model = torch.nn.Module()
            model.w = torch.nn.Parameter(torch.zeros(3, 70000).t())  # not contiguous
            model.h = torch.nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))
            model.frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
            model.register_buffer("count", torch.zeros(1, dtype=torch.long))
            model.register_buffer("mean", torch.zeros(()))
            seen = []
            with tierml.DiLoCo(model) as run:
                for _ in run.steps():
                    seen.append([float(t.reshape(-1)[-1]) for t in (model.w, model.h, model.mean)])
                    with torch.no_grad():
                        model.w += 1
                        model.h += 2
                        model.frozen += 1
                        model.mean.add_(3)
            agent.join(10)
            self.assertEqual([(t["name"], t["type"], t["shape"]) for t in agent.heard[0]["tensors"]],
                             [("w", "float32", [70000, 3]), ("h", "bfloat16", [4]), ("mean", "float32", [])])
            self.assertEqual(seen, [[n + i, n + 2 * i, n + 3 * i] for n in (1, 2) for i in range(4)])
            for delta in agent.deltas:
                self.assertEqual((set(delta[:-5]), list(delta[-5:])), ({-4.0}, [-8] * 4 + [-12]))


if __name__ == "__main__":
    unittest.main()
