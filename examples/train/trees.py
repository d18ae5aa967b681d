#!/usr/bin/python3
"""trees.py DATASET PREDICTIONS: gradient-boosted trees over counts, and over bounds that arithmetic gives."""
import functools, re, sys
from collections import Counter

import numpy
from sklearn.ensemble import HistGradientBoostingRegressor

import blocks

# Cycles from what an instruction reads to what it writes, by mnemonic; the first that matches. Rough: trees correct them.
LATENCY = [(re.compile(pattern), cycles) for pattern, cycles in [
    (r"v?mov|v?lddq|cdqe|endbr|nop|push|pop", 0), (r"v?(f?div|sqrt)|idiv", 12), (r"v?fn?m(add|sub)", 4), (r"v?cvt", 5),
    (r"v?(add|sub|mul|min|max|cmp)[sp][sd]|imul|mul|crc32|v?pmul|v?pmadd|v?hadd", 3), (r"v?(ucom|com)is|bs[fr]|v?pmovmsk|v?movmsk", 3), ("", 1)]]
LOAD, FORWARD = 4, 1  # from an address to what is loaded from there; from a store to such a load
COLUMNS = 100  # of forms, the most frequent


@functools.cache
def latency(form):
    return next(cycles for pattern, cycles in LATENCY if pattern.match(form))


def memory(values):
    return [v for v in values if v[0] == "["]


def dataflow(block, iterations=6):
    """Cycles by dependencies alone: of one iteration, and of each more; the latter also with no value through memory."""
    steps = [(memory(i.reads), [v for v in i.reads if v[0] != "["], latency(i.form), i.writes) for i in block.instructions]
    found = []
    for through_memory in (True, False):
        ready, ends = {}, []
        for _ in range(iterations):
            for loads, registers, takes, writes in steps:
                start = max([ready.get(v, 0) for v in registers], default=0)
                if loads:
                    start += LOAD
                    if through_memory:
                        start = max([start] + [ready[v] + FORWARD for v in loads if v in ready])
                ready.update((v, start + takes) for v in writes)
            ends.append(max(ready.values(), default=0))
        found += [ends[0], (ends[-1] - ends[1]) / (iterations - 2)]
    return found


def bounds(block):
    forms = [i.form for i in block.instructions]
    loads = sum(len(memory(i.reads)) for i in block.instructions)
    stores = sum(len(memory(i.writes)) for i in block.instructions)
    vector = sum("xmm" in f or "ymm" in f for f in forms)
    moves = sum(f.startswith("mov r") and "m" not in f[4:] for f in forms)
    once, each, _, without = dataflow(block)
    slots = len(forms) / 6
    ports = [loads / 3, loads / 2, stores, (len(forms) - vector - loads - stores) / 4, vector / 4, (loads + stores) / 3]
    least = max(slots, each, stores / 2, loads / 3)
    return least, [least, slots, each, without, once, loads, stores, vector, moves, len(block.hex) / 2, *ports]


def features(data, columns):
    rows, least = [], []
    for block in data:
        forms, names = Counter(i.form for i in block.instructions), Counter(i.form.split()[0] for i in block.instructions)
        bound, numbers = bounds(block)
        carried = Counter("memory" if v[0] == "[" else v[:1] for _, _, v, before in block.edges() if before)
        n = len(block.instructions)
        rows.append(numbers + [carried["memory"], carried["r"], carried["v"], n / bound]
                    + [forms[c] if " " in c else names[c] for c in columns])
        least.append(bound)
    return numpy.array(rows), numpy.array(least)


def fit(x, least, cycles, weights=None, trees=300):
    """The logarithm of cycles over the bound, so that errors are relative."""
    model = HistGradientBoostingRegressor(loss="absolute_error", max_iter=trees, learning_rate=30 / trees, max_leaf_nodes=40, min_samples_leaf=8, random_state=1)
    return model.fit(x, numpy.log(cycles / least), weights)


def main():
    data, out = sys.argv[1:]
    train, test = blocks.read(f"{data}/train.csv"), blocks.read(f"{data}/test.csv")
    often = Counter(c for b in train for i in b.instructions for c in {i.form, i.form.split()[0]})
    columns = [c for c, _ in often.most_common(COLUMNS)]
    x, least = features(train, columns)
    model = fit(x, least, numpy.array([b.cycles for b in train]), [b.weight for b in train])
    x, least = features(test, columns)
    blocks.write(out, test, least * numpy.exp(model.predict(x)))


if __name__ == "__main__":
    main()
