"""python3 -m unittest discover -s python -t python"""

import glob
import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy

import tierml
from tierml import reporting

HERE = os.path.dirname(os.path.abspath(__file__))


class Place:
    """The files through which a machine and its program communicate."""

    def __init__(self, folder):
        self.folder = folder
        self.state = os.path.join(folder, "state")
        self.env = {
            "TIERML_RUN": "test", "TIERML_STATE": self.state, "TIERML_NOTICE_FILE": self.path("notice"), "TIERML_PROGRESS_FILE": self.path("progress"),
            "TIERML_SAVE_FILE": self.path("save"), "TIERML_KEPT_FILE": self.path("kept"),
        }

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name + ".new"), "w") as f:
            f.write(text)
        os.replace(self.path(name + ".new"), self.path(name))

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def kept(self):
        try:
            return json.loads(self.read("kept"))
        except FileNotFoundError:
            return {"round": -1, "step": -1}

    def start(self, script, *arguments, **env):
        return subprocess.Popen(
            [sys.executable, os.path.join(HERE, script), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.path.dirname(HERE), "OMP_NUM_THREADS": "1", **self.env, **env}, cwd=self.folder,
        )


def until(condition, what):
    deadline = time.time() + 60
    while not condition():
        if time.time() > deadline:
            raise AssertionError(f"waited a minute for {what}")
        time.sleep(0.002)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Place(folder.name)
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        self.addCleanup(reporting._open.clear)
        os.environ.update(self.place.env)


class Reporting(Case):
    def test_progress(self):
        tierml.progress(7)
        self.assertEqual(self.place.read("progress").split(), ["7"])
        tierml.progress(123456, loss=0.25)
        tierml.progress(8, numpy.float32(0.5))
        self.assertEqual(self.place.read("progress").split(), ["8", "0.5"])
        tierml.progress(9, math.nan)
        self.assertEqual(self.place.read("progress").split(), ["9", "nan"])

    def test_notice(self):
        self.assertIsNone(tierml.notice())
        self.place.write("notice", json.dumps({"kind": "rebalance"}))
        self.assertEqual(tierml.notice(), math.inf)
        self.place.write("notice", json.dumps({"kind": "eviction", "seconds": 30}))
        self.assertAlmostEqual(tierml.notice(), 30, delta=5)
        self.place.write("notice", json.dumps({"kind": "eviction", "seconds": 0}))
        self.assertEqual(tierml.notice(), 0)

    def test_elsewhere(self):
        for name in self.place.env:
            del os.environ[name]
        self.assertIsNone(tierml.notice())
        self.assertIsNone(tierml.state())
        self.assertIsNone(tierml.task())
        self.assertFalse(tierml.resumed())
        self.assertEqual((tierml.rank(), tierml.ranks()), (0, 1))
        tierml.progress(1)
        with tierml.keep({}) as kept:
            self.assertEqual(list(kept.steps(3)), [0, 1, 2])

    def test_environment(self):
        os.environ.update(TIERML_RESUMED="1", TIERML_TASK="3", TIERML_TASKS="24", TIERML_RANK="1", TIERML_RANKS="2")
        self.assertTrue(tierml.resumed())
        self.assertEqual((tierml.task(), tierml.tasks(), tierml.rank(), tierml.ranks()), (3, 24, 1, 2))


class Attributes:
    """Like a scikit-learn estimator: its attributes are what it has learned."""

    def __init__(self):
        self.coef_ = numpy.zeros((50, 50))
        self.n_iter_ = 0


class Keeping(Case):
    def test_everything_comes_back(self):
        big, small = numpy.arange(3000.0).reshape(30, 100).T, numpy.arange(3)
        things = {"history": [1], "table": {"a": {1: (2, 3)}}, "generator": numpy.random.default_rng(5), "old": numpy.random.RandomState(5),
                  "python": random.Random(5), "estimator": Attributes()}
        kept = tierml.keep(big, small, **things)
        big *= 2
        small += 1
        things["history"].append(2)
        things["table"]["b"] = numpy.ones(1000, dtype=">f8")
        things["estimator"].coef_ += 3
        things["estimator"].classes_ = numpy.array(["x", "y"])
        self.place.write("save", "5\n")
        kept.done()
        kept._wait()
        self.assertEqual(self.place.kept(), {"round": 5, "step": 1})
        self.assertEqual(self.place.read("progress").split()[0], "1")
        kept.__exit__()
        def draws():
            return [things["generator"].random(), things["old"].rand(), things["python"].random(), random.random(), numpy.random.rand()]
        expected, want = draws(), (big.copy(), small.copy())
        big[...], small[...] = 0, 0
        fresh = {"history": [], "table": {"z": 1}, "generator": things["generator"], "old": things["old"], "python": things["python"], "estimator": Attributes()}
        random.seed(99)
        numpy.random.seed(99)
        kept = tierml.keep(big, small, **fresh)
        kept.__exit__()
        self.assertEqual(kept.step, 1)
        numpy.testing.assert_array_equal(big, want[0])
        numpy.testing.assert_array_equal(small, want[1])
        self.assertEqual(fresh["history"], [1, 2])
        self.assertEqual(fresh["table"]["a"], {1: (2, 3)})
        self.assertEqual(fresh["table"]["b"].dtype, numpy.dtype(">f8"))
        self.assertEqual(fresh["table"]["b"].sum(), 1000)
        self.assertEqual(fresh["estimator"].coef_.sum(), 3 * 2500)
        self.assertEqual(list(fresh["estimator"].classes_), ["x", "y"])
        fresh["estimator"].coef_ += 1  # can be changed in place
        self.assertEqual(draws(), expected)

    def test_arrays_stay_at_their_places(self):
        frozen, trained, history = numpy.random.default_rng(1).random(1 << 20), numpy.zeros(1 << 18), []
        kept = tierml.keep(trained, frozen, history=history)
        self.addCleanup(kept.__exit__)
        files = []
        for i in (1, 2):
            trained += i
            history.extend("more" for _ in range(1000 * i))
            self.place.write("save", f"{i}\n")
            kept.done()
            kept._wait()
            folders = glob.glob(os.path.join(self.place.state, "tierml-*"))
            self.assertEqual(len(folders), 1)
            with open(os.path.join(folders[0], "arrays"), "rb") as f:
                files.append(f.read())
        changed = [i for i in range(0, len(files[0]), 1 << 20) if files[0][i : i + (1 << 20)] != files[1][i : i + (1 << 20)]]
        self.assertEqual(changed, [0, 1 << 20])  # of 10 MiB, the 2 that were trained

    def test_half_a_snapshot(self):
        os.makedirs(os.path.join(self.place.state, "tierml-snapshot.tmp"))
        values = [1]
        kept = tierml.keep(values)
        self.place.write("save", "1\n")
        kept.done()
        kept.__exit__()
        os.makedirs(os.path.join(self.place.state, "tierml-snapshot.tmp"))
        with open(os.path.join(self.place.state, "tierml-snapshot.tmp", "graph"), "w") as f:
            f.write("half")
        other = []
        tierml.keep(other).__exit__()
        self.assertEqual(other, [1])

    def test_steps_go_on_while_a_snapshot_is_written(self):
        values, written, release = numpy.ones(1 << 16), [], threading.Event()
        self.addCleanup(release.set)
        kept = tierml.keep(values)
        self.addCleanup(kept.__exit__)
        rename = os.rename

        def slow(*names):
            self.assertTrue(release.wait(60))
            written.append(names)
            rename(*names)

        with unittest.mock.patch("os.rename", slow):
            self.place.write("save", "1\n")
            kept.done()
            for step in range(2, 10):
                values += 1  # what is copied is as it was
                if step == 5:
                    self.place.write("save", "2\n")
                kept.done()
            self.assertEqual((written, self.place.kept()), ([], {"round": 0, "step": 0}))
            release.set()
            kept._wait()
            self.assertEqual(self.place.kept(), {"round": 1, "step": 1})
            other = numpy.zeros(1 << 16)
            tierml.keep(other).__exit__()
            self.assertEqual((other.min(), other.max()), (1, 1))
            kept.done()  # the round that was requested meanwhile
            kept._wait()
        self.assertEqual(self.place.kept(), {"round": 2, "step": 10})

    def test_crash_while_a_snapshot_is_written(self):
        for crash in ("os.mkdir", "os.rename"):
            values = numpy.zeros(1 << 16)
            kept = tierml.keep(values)
            values += 1
            self.place.write("save", f"{1 if crash == 'os.mkdir' else 3}\n")
            kept.done()
            kept._wait()
            before = values.copy()
            values += 1
            with unittest.mock.patch(crash, side_effect=OSError(28, "no space left")):
                self.place.write("save", f"{2 if crash == 'os.mkdir' else 4}\n")
                kept.done()
                with self.assertRaisesRegex(OSError, "no space left"):
                    kept._wait()
            other = numpy.zeros(1 << 16)
            tierml.keep(other).__exit__()
            self.assertTrue((other == before).all())

    def test_mistakes(self):
        with self.assertRaisesRegex(TypeError, "cannot keep a int"):
            tierml.keep(3)
        with self.assertRaisesRegex(TypeError, "cannot keep a function"):
            tierml.keep(lambda: 1)
        kept = tierml.keep([1], names=[])
        self.place.write("save", "1\n")
        kept.done()
        kept.__exit__()
        with self.assertRaisesRegex(RuntimeError, "has the objects 0, names, but tierml.keep was called with 0"):
            tierml.keep([1])
        del os.environ["TIERML_STATE"]
        with self.assertRaisesRegex(RuntimeError, "add `state: {dir: state}` to the job file"):
            tierml.keep([1])


class Disturbed(Case):
    """Restarts a program until it has ended."""

    def undisturbed(self, script, steps):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(Place(folder).start(script, steps).wait(), 0)
            with open(os.path.join(folder, "result"), "rb") as f:
                return hashlib.sha256(f.read()).hexdigest()

    def result(self):
        with open(self.place.path("result"), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def disturb(self, script, steps, pauses, warned):
        """Restart until it ends; return how often each step was done."""
        number, before, ends = 0, 0, random.Random(4)
        for life in range(100):
            try:
                os.unlink(self.place.path("notice"))
            except FileNotFoundError:
                pass
            child = self.place.start(script, steps, STEP_SECONDS="0.01")
            target = before + ends.choice(pauses)
            until(lambda: child.poll() is not None or self.done() > target, f"step {target}, life {life}")
            if child.poll() is None:
                if warned:
                    self.place.write("notice", json.dumps({"kind": "eviction", "seconds": 30}))
                    child.send_signal(signal.SIGTERM)
                    self.assertIn(child.wait(), (143, 0))
                    self.assertEqual(self.place.kept()["step"], self.done())
                else:
                    number += 1
                    self.place.write("save", f"{number}\n")
                    until(lambda: child.poll() is not None or self.place.kept()["round"] >= number, "a snapshot")
                    child.kill()
                    child.wait()
            elif child.returncode != 143:
                self.assertEqual(child.returncode, 0)
                break
            before = self.place.kept()["step"]
        self.assertGreater(life, 1)
        with open(self.place.path("steps")) as f:
            return [int(n) for n in f.read().split()]

    def done(self):
        try:
            with open(self.place.path("steps")) as f:
                return int((f.read().split() or ["-1"])[-1]) + 1
        except FileNotFoundError:
            return 0


class Interrupted(Disturbed):
    """The same bytes at the end, regardless of interruptions."""

    def test_warned(self):
        done = self.disturb("numbers_of.py", 40, [11, 14], warned=True)
        self.assertEqual(done, list(range(40)))  # no step was done twice
        self.assertEqual(self.result(), self.undisturbed("numbers_of.py", 40))

    def test_killed(self):
        done = self.disturb("numbers_of.py", 40, [11, 14], warned=False)
        self.assertEqual(sorted(set(done)), list(range(40)))
        self.assertEqual(self.result(), self.undisturbed("numbers_of.py", 40))


if __name__ == "__main__":
    unittest.main()
