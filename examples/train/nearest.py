#!/usr/bin/python3
"""nearest.py DATASET PREDICTIONS: the cycles of the most similar block of training: no model, but a test for leaks. If blocks of the
test split had near-duplicates in training, this would be nearly as good as a second measurement."""
import sys

from sklearn.feature_extraction import DictVectorizer
from sklearn.neighbors import NearestNeighbors

import blocks


def forms(block):
    """How often each form and each pair of neighbours occurs."""
    names, counts = [i.form for i in block.instructions], {}
    for item in names + [" then ".join(pair) for pair in zip(names, names[1:])]:
        counts[item] = counts.get(item, 0) + 1
    return counts


def main():
    data, out = sys.argv[1:]
    train, test = blocks.read(f"{data}/train.csv"), blocks.read(f"{data}/test.csv")
    vectors = DictVectorizer().fit([forms(b) for b in train])
    index = NearestNeighbors(n_neighbors=1, metric="cosine").fit(vectors.transform([forms(b) for b in train]))
    found = [train[k] for k in index.kneighbors(vectors.transform([forms(b) for b in test]), return_distance=False)[:, 0]]
    blocks.write(out, test, [f.cycles * len(b.instructions) / len(f.instructions) for b, f in zip(test, found)])


main()
