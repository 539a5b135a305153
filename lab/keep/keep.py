"""How long tierml.keep holds up a step: keep.py GIGABYTES FOLDER. Prints the time of each step's end at which a snapshot is taken, and of the longest
step's end while one is written."""

import os, shutil, sys, time

import numpy

size, folder = float(sys.argv[1]), os.path.abspath(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.environ.update(TIERML_RUN="keep", TIERML_STATE=os.path.join(folder, "state"), TIERML_SAVE_FILE=os.path.join(folder, "save"),
                  TIERML_KEPT_FILE=os.path.join(folder, "kept"), TIERML_PROGRESS_FILE=os.path.join(folder, "progress"))

import tierml

layers = {f"layer-{i}": numpy.random.default_rng(i).random(int(size * 1e9 / 30 / 8)) for i in range(30)}
held, others = [], []
with tierml.keep(layers) as kept:
    for save in range(1, 6):
        with open(os.path.join(folder, "save.new"), "w") as f:
            f.write(f"{save}\n")
        os.rename(os.path.join(folder, "save.new"), os.path.join(folder, "save"))
        for step in range(200):
            layers["layer-0"] += 1
            began = time.perf_counter()
            kept.done()
            (others if step else held).append(time.perf_counter() - began)
            time.sleep(0.02)
            if step and not kept._writer.is_alive():
                break
shutil.rmtree(folder)
print(f"{size} GB: a snapshot holds a step up for {' '.join(f'{s:.2f}' for s in held)} s; while one is written, at most {max(others):.3f} s")
sys.exit(max(held) > 0.3 * size / 1.5)
