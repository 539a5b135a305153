# Draws the missing frames of one scene: a zoom into the Mandelbrot set, from one scene to the next.
import os, sys, time

frames, wide, high = 15, 48, 36
state, scene, minute = sys.argv[1], int(os.environ["TIERML_TASK"]), float(os.environ["MINUTE"])


def shade(x: int, y: int, zoom: float) -> int:
    c = z = complex(-0.743643887 + (x / wide - 0.5) * zoom, 0.131825904 + (y / high - 0.5) * zoom)
    for n in range(60):
        if abs(z) > 2:
            return 255 - 4 * n
        z = z * z + c
    return 0


for frame in range(1, frames + 1):
    name, began = os.path.join(state, f"frame-{scene * frames + frame:04d}.pgm"), time.monotonic()
    if not os.path.exists(name):
        zoom = 3 * 0.99 ** (scene * frames + frame)
        pixels = bytes(shade(x, y, zoom) for y in range(high) for x in range(wide))
        with open(name + ".tmp", "wb") as f:
            f.write(b"P5 %d %d 255\n" % (wide, high) + pixels)
        time.sleep(max(0, minute - (time.monotonic() - began)))
        os.rename(name + ".tmp", name)
    print("frame", frame, flush=True)
