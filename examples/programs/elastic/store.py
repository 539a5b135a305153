"""The coordinator: the store where torch's elastic agents meet, on the controller's host, which is never evicted."""

import os
import threading

from torch.distributed import TCPStore

store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=True, wait_for_workers=False)
threading.Event().wait()
