"""A program whose result depends on every random number that it has drawn."""

import os
import random
import sys
import time

import numpy

import tierml

weights, moments, generator = numpy.zeros(5000), {"m": numpy.zeros(5000)}, numpy.random.default_rng(3)
random.seed(1)
numpy.random.seed(2)
with tierml.keep(weights, moments, generator) as kept, open("steps", "a", buffering=1) as steps:
    for step in kept.steps(int(sys.argv[1])):
        gradient = generator.standard_normal(5000) + random.random() + numpy.random.rand(5000)
        moments["m"] = 0.9 * moments["m"] + gradient
        weights -= 0.01 * moments["m"]
        time.sleep(float(os.environ.get("STEP_SECONDS", "0")))
        steps.write(f"{step}\n")
weights.tofile("result")
