#!/usr/bin/python3
"""linear.py DATASET PREDICTIONS: each form of instruction costs so many cycles, wherever it stands."""
import sys
from collections import Counter

import numpy
from scipy.sparse import csr_matrix, diags, vstack, identity
from scipy.sparse.linalg import lsqr

import blocks


def matrix(data, columns):
    """How often each block has each form; forms that training lacks are counted together, in column 0."""
    entries = [(row, columns.get(form, 0), n) for row, block in enumerate(data)
               for form, n in Counter(i.form for i in block.instructions).items()]
    rows, places, counts = zip(*entries)
    return csr_matrix((counts, (rows, places)), shape=(len(data), len(columns) + 1), dtype=float)


def fit(x, cycles, weights, ridge=0.3, rounds=12):
    """Least absolute relative error, by least squares whose weights are taken again from the last round's errors."""
    scale, costs = numpy.sqrt(weights) / cycles, None
    for _ in range(rounds):
        relative = scale if costs is None else scale / numpy.sqrt(numpy.maximum(abs(x @ costs - cycles) / cycles, 0.02))
        system = vstack([diags(relative) @ x, ridge * identity(x.shape[1])])
        costs = lsqr(system, numpy.concatenate([relative * cycles, numpy.zeros(x.shape[1])]), iter_lim=300)[0]
    return costs


def main():
    data, out = sys.argv[1:]
    train, test = blocks.read(f"{data}/train.csv"), blocks.read(f"{data}/test.csv")
    often = Counter(i.form for b in train for i in b.instructions)
    columns = {form: k + 1 for k, (form, n) in enumerate(often.most_common()) if n >= 3}
    x, cycles = matrix(train, columns), numpy.array([b.cycles for b in train])
    costs = fit(x, cycles, numpy.array([b.weight for b in train]))
    blocks.write(out, test, numpy.maximum(matrix(test, columns) @ costs, 0.1))


main()
