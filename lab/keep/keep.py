"""How long tierml.keep delays a step: keep.py GIGABYTES FOLDER [SAVES]. Prints the time of each step's end at which a snapshot is taken, with the
processor time of that, which also holds on a busy computer, and the time of the longest step's end while one is written."""

import itertools, os, shutil, sys, time

import numpy

size, folder = float(sys.argv[1]), os.path.abspath(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.environ.update(TIERML_RUN="keep", TIERML_STATE=os.path.join(folder, "state"), TIERML_SAVE_FILE=os.path.join(folder, "save"),
                  TIERML_KEPT_FILE=os.path.join(folder, "kept"), TIERML_PROGRESS_FILE=os.path.join(folder, "progress"))

import tierml

layers = {f"layer-{i}": numpy.full(int(size * 1e9 / 30 / 8), i + 0.5) for i in range(30)}
held, busy, others = [], [], []
with tierml.keep(layers) as kept:
    for save in range(1, int(sys.argv[3]) + 1 if len(sys.argv) > 3 else 6):
        with open(os.path.join(folder, "save.new"), "w") as f:
            f.write(f"{save}\n")
        os.rename(os.path.join(folder, "save.new"), os.path.join(folder, "save"))
        for step in itertools.count():
            layers["layer-0"] += 1
            began, worked = time.perf_counter(), time.thread_time()
            kept.done()
            if step:
                others.append(time.perf_counter() - began)
            else:
                held.append(time.perf_counter() - began)
                busy.append(time.thread_time() - worked)
            time.sleep(0.02)
            if step and not kept._writer.is_alive():
                break
shutil.rmtree(folder)
print(f"{size} GB: a snapshot holds a step up for {' '.join(f'{s:.2f}' for s in held)} s, {' '.join(f'{s:.2f}' for s in busy)} s of it on a processor; "
      f"while one is written, at most {max(others):.3f} s")
sys.exit(max(busy) > 0.3 * max(size / 1.5, 1))
