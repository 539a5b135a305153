# Means, variances and marginal likelihoods of scikit-learn's Gaussian process on 50 random data sets, and the expected
# improvement in log form by scipy. Prints gaussian.json. Needs PyPI's scikit-learn.
#   python3 gaussian.py > gaussian.json
import json
import warnings

import numpy as np
from scipy.special import erfcx, log_ndtr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

warnings.filterwarnings("ignore")
rng = np.random.default_rng(11)


def numbers(a):
    return [float(f"{x:.17g}") for x in np.ravel(a)]


sets = []
for i in range(50):
    n, d = int(rng.integers(5, 41)), int(rng.integers(1, 7))
    x, at = rng.random((n, d)), rng.random((6, d))
    w, p = rng.normal(size=d), rng.normal(size=d)
    y = np.sin(3 * x @ w) + (x - 0.5) ** 2 @ p + 0.1 * rng.normal(size=n)
    y = (y - y.mean()) / y.std()
    lengths, signal, noise = np.exp(rng.normal(-0.5, 0.6, d)), float(np.exp(rng.normal())), float(np.exp(rng.normal(-4, 1)))
    fixed = GaussianProcessRegressor(ConstantKernel(signal) * Matern(lengths, nu=2.5), alpha=noise, optimizer=None).fit(x, y)
    mean, sd = fixed.predict(at, return_std=True)
    kernel = ConstantKernel(1, (1e-3, 1e3)) * Matern(np.full(d, 0.5), (1e-2, 1e2), nu=2.5) + WhiteKernel(0.1, (1e-6, 1e1))
    free = GaussianProcessRegressor(kernel, alpha=0, n_restarts_optimizer=8, random_state=i).fit(x, y)
    sets.append(dict(x=[numbers(r) for r in x], y=numbers(y), at=[numbers(r) for r in at], lengths=numbers(lengths), signal=signal,
                     noise=noise, mean=numbers(mean), variance=numbers(sd**2), likelihood=float(fixed.log_marginal_likelihood_value_),
                     best=float(free.log_marginal_likelihood_value_)))


def log_improvement(z):  # log E max(0, z + N(0,1)): Ament et al. (NeurIPS 2023), equation 9
    if z > -1:
        return np.log(np.exp(-z * z / 2) / np.sqrt(2 * np.pi) + z * np.exp(log_ndtr(z)))
    return -z * z / 2 - 0.5 * np.log(2 * np.pi) + np.log1p(-np.sqrt(np.pi / 2) * erfcx(-z / np.sqrt(2)) * abs(z))


zs = [-200.0, -60.0, -30.0, -25.1, -24.9, -12.0, -5.0, -1.5, -0.5, 0.0, 0.7, 3.0, 20.0]
print(json.dumps(dict(sets=sets, improvement=[[z, float(log_improvement(z))] for z in zs])))
