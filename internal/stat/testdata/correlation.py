"""Writes correlation.json: random pairs with ties, and scipy's coefficients of them.

Run with scipy 1.10.1: python3 correlation.py >correlation.json
"""
import json
import numpy as np
from scipy.stats import kendalltau, pearsonr

rng = np.random.default_rng(20)
cases = []
for n, step in [(2, 0), (3, 0), (10, 0), (10, 0.5), (100, 0), (100, 0.25), (1000, 0.05), (3000, 1)]:
    x = rng.lognormal(0.5, 1, n)
    y = x * rng.lognormal(0, 0.5, n)
    if step:
        x, y = np.round(x / step) * step, np.round(y / step) * step
    if n == 100:  # falling
        y = y.max() - y
    x, y = np.round(x, 6), np.round(y, 6)
    cases.append({"x": x.tolist(), "y": y.tolist(), "tau_b": kendalltau(x, y)[0], "pearson": pearsonr(x, y)[0]})
json.dump(cases, __import__("sys").stdout)
