"""What needs torch: python3 -m unittest tests.test_torch"""

import json
import os
import socket
import unittest

from . import test_tierml
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
            places[1].write("save", "1\n")  # only one machine asks, yet both have the snapshot
            until(lambda: all(p.kept()["round"] == 1 for p in places), "both snapshots")
            self.assertEqual(places[0].kept(), places[1].kept())
            places[0].write("notice", json.dumps({"kind": "eviction", "seconds": 30}))
            self.assertEqual(children[0].wait(60), 143)
            until(lambda: places[1].kept()["round"] > 1, "the last snapshot")
            self.assertIsNone(children[1].poll())  # its machine stays; it ends when it is asked to
            places[1].write("notice", json.dumps({"kind": "stop", "seconds": 30}))
            self.assertEqual(children[1].wait(60), 143)
            self.assertEqual(places[0].kept(), places[1].kept())
        finally:
            for c in children:
                c.kill()
                c.wait()


if __name__ == "__main__":
    unittest.main()
