#!/usr/bin/python3
"""trees.py DATASET PREDICTIONS: gradient-boosted trees over counts, and over bounds that arithmetic gives."""
import functools, itertools, re, sys
from collections import Counter

import numpy
from sklearn.ensemble import HistGradientBoostingRegressor

import blocks

# Cycles from what an instruction reads to what it writes, by mnemonic; the first that matches. Rough: trees correct them.
LATENCY = [(re.compile(pattern), cycles) for pattern, cycles in [
    (r"v?mov|v?lddq|cdqe|endbr|nop|push|pop", 0), (r"v?(f?div|sqrt)|idiv", 12), (r"v?fn?m(add|sub)", 4), (r"v?cvt", 5),
    (r"v?(add|sub|mul|min|max|cmp)[sp][sd]|imul|mul|crc32|v?pmul|v?pmadd|v?hadd", 3), (r"v?(ucom|com)is|bs[fr]|v?pmovmsk|v?movmsk", 3), ("", 1)]]
LOAD, FORWARD, RENAMED = 4, 7, 1  # from an address to what is loaded; through memory; through memory by the same unchanged registers
COLUMNS = 100  # of forms and mnemonics, the most frequent
PLACE = re.compile(r"\[(.*?)([+-]0x[0-9a-f]+)?\]")
MOVES = re.compile(r"(add|sub) rsp, (-?0x[0-9a-f]+)$")


@functools.cache
def latency(form):
    return next(cycles for pattern, cycles in LATENCY if pattern.match(form))


@functools.cache
def place(value):
    """The registers of an address, its displacement, and its sum without their names: all registers start equal."""
    sum_, displacement = PLACE.fullmatch(value).groups()
    registers = frozenset(re.findall(r"[a-z][a-z0-9]+", sum_.split(":")[-1]))
    return registers, int(displacement or "0", 16), "rip" if "rip" in sum_ else re.sub(r"r[a-z0-9]+", "r", sum_)


@functools.cache
def width(form):
    found = re.search(r"\bm(\d+)", form)
    return int(found[1]) // 8 if found else 8


@functools.cache
def moves(text):
    """By how much an instruction moves rsp."""
    found = MOVES.match(text)
    return {"push": -8, "pop ": 8}.get(text[:4], 0) if not found else int(found[2], 16) * (1 if found[1] == "add" else -1)


def accesses(values):
    return [v for v in values if v[0] == "["]


def dataflow(block, iterations=6):
    """Cycles by dependencies alone, of one iteration and of each more, and how the stores and loads of the first lie."""
    changed = {v for i in block.instructions for v in i.writes} - {"rsp"}
    steps = [(i, accesses(i.reads), [v for v in i.reads if v[0] != "["], accesses(i.writes), [v for v in i.writes if v[0] != "["],
              latency(i.form), width(i.form), moves(i.text)) for i in block.instructions]
    ready, versions, ends, rsp, first = {}, Counter(), [], 0, []
    for iteration in range(iterations):
        for i, loads, registers, stores, results, takes, size, by in steps:
            def key(value):
                names, displacement, text = place(value)
                fixed = not names & changed
                return (text, displacement + (rsp if "rsp" in names else 0)) if fixed else (value, tuple(versions[n] for n in names)), fixed
            names = place(loads[0])[0] if loads else ()
            start = max([ready.get(v, 0) for v in registers if v not in names], default=0)
            if loads:
                where, fixed = key(loads[0])
                stored = ready.get(where)
                if stored is not None and fixed:
                    start = max(start, stored + RENAMED)
                else:
                    address = max([ready.get(v, 0) for v in names], default=0)
                    start = max(start, address + LOAD, 0 if stored is None else stored + FORWARD)
                if iteration == 0:
                    first.append((False, where, size))
            for value in stores:
                where, _ = key(value)
                ready[where] = start + takes
                if iteration == 0:
                    first.append((True, where, size))
            versions.update(results)
            ready.update((v, start + takes) for v in results if v != "rsp" or not by)
            rsp += by
        ends.append(max(ready.values(), default=0))
    return ends[0], (ends[-1] - ends[1]) / (iterations - 2), first


def layout(first):
    """Lines that are stored to, how often the line, or half or a quarter of one, changes from store to store, and loads of which stores feed a part."""
    known = [(store, *where, size) for store, where, size in first if isinstance(where[1], int)]
    stored = [(text, at) for store, text, at, _ in known if store]
    chunks = [[(text, at >> bits) for text, at in stored] for bits in (4, 5, 6)]  # of 16, 32 and 64 bytes, a line
    commits = sum((len(list(run)) + 1) // 2 for _, run in itertools.groupby(chunks[2]))  # two at once where the line is the same
    partly = sum(any(s and t == text and a < at + size and at < a + n and not (a <= at and at + size <= a + n) for s, t, a, n in known)
                 for store, text, at, size in known if not store)
    switches = [sum(a != b for a, b in zip(c, c[1:] + c[:1])) for c in reversed(chunks)]
    return [commits, len(set(chunks[2])), *switches, partly, sum(not isinstance(w[1], int) for _, w, _ in first)]


def bounds(block):
    forms = [i.form for i in block.instructions]
    loads = sum(len(accesses(i.reads)) for i in block.instructions)
    stores = sum(len(accesses(i.writes)) for i in block.instructions)
    vector = sum("xmm" in f or "ymm" in f for f in forms)
    renamed = sum(f.startswith(("mov r64, r64", "mov r32, r32", "xor r32, r32", "nop")) for f in forms)
    once, each, first = dataflow(block)
    lines = layout(first)
    explicit = sum("rsp" in i.writes and not i.text.startswith(("push", "pop")) for i in block.instructions)
    stack = explicit + (explicit > 0 and any(f.startswith(("push", "pop")) for f in forms))  # the stack engine has to be synchronized
    slots = len(forms) / 6
    units = (len(forms) - vector - loads - stores - renamed) / 4
    least = max(slots, each, stores / 2, lines[2], loads / 3, (loads + stores) / 3, units, stack)
    return least, [least, slots, each, once, loads, stores, vector, renamed, units, stack, sum("comis" in f for f in forms), len(block.hex) / 2, *lines]


def features(data, columns):
    rows, least = [], []
    for block in data:
        forms, names = Counter(i.form for i in block.instructions), Counter(i.form.split()[0] for i in block.instructions)
        bound, numbers = bounds(block)
        carried = Counter("memory" if v[0] == "[" else v[:1] for _, _, v, before in block.edges() if before)
        rows.append(numbers + [carried["memory"], carried["r"], carried["v"], len(block.instructions) / bound]
                    + [forms[c] if " " in c else names[c] for c in columns])
        least.append(bound)
    return numpy.array(rows), numpy.array(least)


def fit(x, least, cycles, weights=None):
    """The logarithm of cycles over the bound, so that errors are relative."""
    model = HistGradientBoostingRegressor(loss="absolute_error", max_iter=200, learning_rate=0.1, max_leaf_nodes=31, min_samples_leaf=20)
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
