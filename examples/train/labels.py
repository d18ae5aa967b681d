#!/usr/bin/python3
"""labels.py DATASET PRECISE NAME=LABELS...: what noise in labels, and fewer of them, cost the trees of trees.py.

PRECISE is a result of bbprof batch with the blocks of the test split, LABELS are such results of the training split; all models learn
from the blocks that all of them accepted, and are judged by the same. Writes labels.svg and blocks.svg, and a line for each model."""
import csv, math, sys
from collections import Counter

import numpy

import blocks, trees

SIZES, ADDED = (1000, 3000, 10000), (10, 20, 50)


def accepted(path):
    with open(path, newline="") as file:
        return {r["hex"]: float(r["cycles"]) for r in csv.DictReader(file) if r["status"] == "ok" and "no CPU was seen idle" not in r["detail"]}


def interval(errors, resamples=1000):
    """The mean and the middle 95 % of bootstrap means, in percent."""
    draws = numpy.random.default_rng(1)
    means = [draws.choice(errors, len(errors)).mean() for _ in range(resamples)]
    return [100 * float(v) for v in (errors.mean(), *numpy.quantile(means, [0.025, 0.975]))]


def svg(path, title, below, rows):
    """Means as dots with their intervals, on a logarithmic scale; rows are (label, mean, low, high)."""
    least, most = 0.9 * min(low for _, _, low, _ in rows), 1.15 * max(high for *_, high in rows)
    at, height = lambda v: 170 + 400 * math.log(v / least) / math.log(most / least), 60 + 28 * len(rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height + 40}" width="640" height="{height + 40}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="#fff"/>', f'<text x="16" y="22" font-size="14" font-weight="bold">{title}</text>']
    for v in (5, 6, 7, 8, 10, 15, 20, 30, 50, 70, 100, 150, 200):
        if least < v < most and (most < 3 * least or v not in (6, 7, 8, 15, 70, 150)):
            parts.append(f'<path d="M{at(v):.1f} 40V{height - 12}" stroke="#ddd"/><text x="{at(v):.1f}" y="{height + 4}" text-anchor="middle" fill="#555">{v} %</text>')
    for k, (label, mean, low, high) in enumerate(rows):
        y = 58 + 28 * k
        parts.append(f'<text x="160" y="{y + 4}" text-anchor="end">{label}</text><path d="M{at(low):.1f} {y}H{at(high):.1f}" stroke="#0072b2" stroke-width="2"/>'
                     f'<circle cx="{at(mean):.1f}" cy="{y}" r="4" fill="#0072b2"/><text x="{at(high) + 8:.1f}" y="{y + 4}">{mean:.1f} %</text>')
    parts.append(f'<text x="365" y="{height + 26}" text-anchor="middle" fill="#555">{below}</text></svg>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")


def main():
    data, precise, *named = sys.argv[1:]
    labels, truth = dict((name, accepted(path)) for name, path in (n.split("=") for n in named)), accepted(precise)
    train = [b for b in blocks.read(f"{data}/train.csv") if all(b.hex in found for found in labels.values())]
    test = [b for b in blocks.read(f"{data}/test.csv") if b.hex in truth]
    columns = [c for c, _ in Counter(c for b in train for i in b.instructions for c in {i.form, i.form.split()[0]}).most_common(trees.COLUMNS)]
    x, least = trees.features(train, columns)
    test_x, test_least = trees.features(test, columns)
    order, cycles = numpy.random.default_rng(1).permutation(len(train)), numpy.array([truth[b.hex] for b in test])

    def judged(name, found, rows):
        y = numpy.array([found[b.hex] for b in train])
        predicted = test_least * numpy.exp(trees.fit(x[rows], least[rows], y[rows]).predict(test_x))
        result = (name, *interval(abs(predicted - cycles) / cycles))
        print("{}: {:.2f} % ({:.2f} to {:.2f})".format(*result), flush=True)
        return result

    found = [judged(name, given, order) for name, given in labels.items()]
    first = next(iter(labels))
    for percent in ADDED:  # as a normal distribution has them
        noise = numpy.random.default_rng(percent).normal(0, percent / 100, len(train))
        found.append(judged(f"{first}, {percent} % added", {b.hex: labels[first][b.hex] * math.exp(e) for b, e in zip(train, noise)}, order))
    svg("labels.svg", "What noise in the labels costs", f"mean error on the test split, measured precisely; {len(train):,} blocks to learn from", found)
    found = [judged(f"{n:,} blocks", labels[first], order[:n]) for n in SIZES if n < len(train)] + [(f"{len(train):,} blocks", *found[0][1:])]
    svg("blocks.svg", "How the error falls with the number of blocks", f"mean error on the test split; labels: {first}", found)


main()
