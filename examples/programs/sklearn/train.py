"""A linear classifier that learns from batches of a stream."""

import time

import numpy
from sklearn.linear_model import SGDClassifier

import tierml

rng = numpy.random.default_rng(1)
truth = numpy.random.default_rng(0).standard_normal(50)
model = SGDClassifier(loss="log_loss", alpha=1e-5, random_state=1)
test = numpy.random.default_rng(2).standard_normal((2000, 50))
with tierml.keep(model, rng) as kept:
    for step in kept.steps(200):
        x = rng.standard_normal((256, 50))
        model.partial_fit(x, x @ truth > 0, classes=[False, True])
        accuracy = model.score(test, test @ truth > 0)
        tierml.progress(step + 1, 1 - accuracy)
        time.sleep(0.15)  # a real one takes longer
print(f"accuracy {model.score(test, test @ truth > 0):.4f} after {kept.step} batches")
