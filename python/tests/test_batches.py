"""python3 -m unittest tests.test_batches"""

import collections
import itertools
import random
import unittest

import tierml


class Batches(unittest.TestCase):
    def test_each_example_comes_once_an_epoch(self):
        for n, size in ((1, 1), (1, 3), (2, 1), (7, 3), (100, 32), (1000, 1), (64, 64), (65, 64)):
            data = tierml.Batches(range(n), size, seed=3)
            stream = list(itertools.chain.from_iterable(data[0, s] for s in range(4 * n)))
            for epoch in range(4 * size):
                self.assertEqual(sorted(stream[epoch * n:(epoch + 1) * n]), list(range(n)), (n, size, epoch))

    def test_orders_differ(self):
        data = tierml.Batches(range(1000), 1000, seed=1)
        orders = [data[0, 0], data[0, 1], data[1, 0], tierml.Batches(range(1000), 1000, seed=2)[0, 0]]
        for a, b in itertools.combinations(orders, 2):
            self.assertLess(sum(x == y for x, y in zip(a, b)), 10)
        # Neighbours are separated, and the ends do not differ from the middle.
        self.assertLess(sum(abs(x - y) == 1 for x, y in zip(orders[0], orders[0][1:])), 10)
        self.assertTrue(400 < sum(orders[0][:200]) / 200 < 600)

    def test_the_order_never_changes(self):
        self.assertEqual(tierml.Batches(range(10), 5, seed=7)[0, 0], FIRST)

    def test_killed_at_random_on_any_number_of_ranks(self):
        """200 lives of 1 to 8 ranks, each killed at a random step, some with steps repeated: the counted steps equal those of an undisturbed run."""
        n, size, steps = 501, 32, 400
        undisturbed = tierml.Batches(range(n), size, seed=5)
        want = [undisturbed[0, s] for s in range(steps)]
        r = random.Random(11)
        got, kept, lives = {}, 0, 0
        while kept < steps or lives < 200:
            lives += 1
            ranks, data = r.randint(1, 8), tierml.Batches(range(n), size, seed=5)
            loaders = [data.loader(kept, workers=r.randint(0, 1), rank=k, ranks=ranks) for k in range(ranks)]
            done = min(steps, kept + r.randint(0, 4))
            for step in range(kept, done):
                got[step] = list(itertools.chain.from_iterable(next(loader) for loader in loaders))
                self.assertEqual(got[step], list(itertools.chain.from_iterable(data.of(step, k, ranks) for k in range(ranks))))
            kept = done if r.random() < 0.7 else max(kept, done - r.randint(0, 3))  # the others are repeated
        self.assertEqual([got[s] for s in range(steps)], want)
        stream = list(itertools.chain.from_iterable(got[s] for s in range(steps)))
        for epoch in range(len(stream) // n):
            self.assertEqual(collections.Counter(stream[epoch * n:(epoch + 1) * n]), collections.Counter(range(n)))

    def test_arrays_are_stacked(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        x, y = numpy.arange(20.0).reshape(10, 2), numpy.arange(10)
        a, b = tierml.Batches(list(zip(x, y)), 4, seed=1)[0, 0]
        self.assertEqual((tuple(a.shape), tuple(b.shape)), ((4, 2), (4,)))
        self.assertTrue((a[:, 0] == 2 * b).all())

    def test_what_cannot_be(self):
        data = tierml.Batches(range(10), 4, seed=1)
        for bad in (lambda: tierml.Batches([], 4, seed=1), lambda: tierml.Batches([1], 0, seed=1), lambda: data.of(0, 2, 2), lambda: data.of(0, 0, 5)):
            self.assertRaises(ValueError, bad)
        self.assertRaises(IndexError, lambda: data[0, -1])


FIRST = [8, 0, 9, 1, 7]
