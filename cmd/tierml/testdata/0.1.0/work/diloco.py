import os, time
import numpy as np
import tierml

target = np.arange(8, dtype=np.float32)
model = {"w": np.zeros(8, np.float32)}


class SGD:
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
    def step(self, g): model["w"] -= np.float32(0.05) * g


optimizer = SGD()
with tierml.DiLoCo(model, optimizer) as run:
    for step in run.steps():
        e = model["w"] - target
        optimizer.step(e)
        run.progress(float((e * e).mean()))
        time.sleep(0.05)
