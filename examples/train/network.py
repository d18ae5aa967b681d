#!/usr/bin/python3
"""network.py DATASET PREDICTIONS [EPOCHS]: a graph network. Instructions are nodes and hand messages along their dependencies,
those from one iteration to the next included; each node then says how many cycles it adds. After GRANITE (Sýkora et al., IISWC 2022)
and Ithemal (Mendis et al., ICML 2019), which learn such states from operands and from sequences."""
import random, sys
from collections import Counter

import torch
from torch import nn

import blocks

SIZE, ROUNDS, BATCH = 64, 5, 128
KINDS = ["general", "vector", "flags", "memory", "address", "other"]


def kind(value, reader):
    if value[0] == "[":
        return "memory"
    if any(value in place for place in reader.reads if place[0] == "["):
        return "address"
    return {"r": "general", "v": "vector", "c": "flags", "o": "flags", "z": "flags"}.get(value[0], "other")


def words(instruction):
    """The form as a whole and in parts, so that one never seen is still known by its parts; and what waits for nothing."""
    return [instruction.form, *instruction.form.replace(",", "").split(), "waits" if instruction.reads else "free"]


class Graphs:
    """Many blocks as tensors: words of each node, edges by type, and the block of each node."""

    def __init__(self, data, vocabulary):
        tokens, starts, owner, edges = [], [], [], [[] for _ in range(2 * len(KINDS))]
        for number, block in enumerate(data):
            first = len(owner)
            for i in block.instructions:
                starts.append(len(tokens))
                tokens += [vocabulary.get(w, 0) for w in words(i)]
                owner.append(number)
            for writer, reader, value, carried in block.edges():
                edges[2 * KINDS.index(kind(value, block.instructions[reader])) + carried].append((first + writer, first + reader))
            for i in range(first + 1, len(owner)):  # the order of the program: the neighbour before
                edges[-1].append((i - 1, i))
        self.tokens, self.starts, self.owner, self.count = torch.tensor(tokens), torch.tensor(starts), torch.tensor(owner), len(data)
        self.edges = [torch.tensor(e, dtype=torch.long).reshape(-1, 2).T for e in edges]


class Network(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocabulary, SIZE, mode="mean")
        self.messages = nn.ModuleList(nn.Linear(SIZE, SIZE, bias=False) for _ in range(2 * len(KINDS)))
        self.update = nn.ModuleList(nn.Sequential(nn.Linear(3 * SIZE, SIZE), nn.ReLU()) for _ in range(ROUNDS))
        self.norm = nn.ModuleList(nn.LayerNorm(SIZE) for _ in range(ROUNDS))
        self.whole = nn.Linear(SIZE, SIZE)
        self.cycles = nn.Sequential(nn.Linear(2 * SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, 1), nn.Softplus())

    def forward(self, g):
        start = h = torch.tanh(self.embed(g.tokens, g.starts))
        for update, norm in zip(self.update, self.norm):
            heard = torch.zeros_like(h)
            for layer, (source, target) in zip(self.messages, g.edges):
                if len(source):
                    heard = heard.index_add(0, target, layer(h[source]))
            h = norm(h + update(torch.cat([h, heard, start], 1)))
        total = torch.zeros(g.count, SIZE).index_add(0, g.owner, self.whole(h))
        size = torch.zeros(g.count).index_add(0, g.owner, torch.ones(len(h)))
        context = torch.tanh(total / size.sqrt().unsqueeze(1))[g.owner]
        return torch.zeros(g.count).index_add(0, g.owner, self.cycles(torch.cat([h, context], 1)).squeeze(1)) + 0.05


def batches(data, vocabulary):
    """Blocks of like length together: the graphs are built once."""
    data = sorted(data, key=lambda b: len(b.instructions))
    parts = [data[i:i + BATCH] for i in range(0, len(data), BATCH)]
    return [(Graphs(p, vocabulary), torch.tensor([b.cycles for b in p]), torch.tensor([b.weight for b in p])) for p in parts]


def error(model, prepared):
    """The mean relative error."""
    with torch.no_grad():
        return torch.cat([abs(model(g) - y) / y for g, y, _ in prepared]).mean().item()


def train(model, prepared, validation, epochs):
    """Ends with the state whose error on the validation split is least."""
    optimizer, best, state = torch.optim.AdamW(model.parameters()), float("inf"), None
    for epoch in range(epochs):
        random.shuffle(prepared)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - epoch / epochs) ** 1.5
        for g, y, w in prepared:
            loss = (w * abs(model(g) - y) / y).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if (now := error(model, validation)) < best:
            best, state = now, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch + 1}: {100 * now:.1f} % on the validation split", file=sys.stderr)
    model.load_state_dict(state)


def main():
    data, out, epochs = sys.argv[1], sys.argv[2], int((sys.argv[3:] or [25])[0])
    torch.manual_seed(1), random.seed(1), torch.set_num_threads(1)
    learn, check, test = (blocks.read(f"{data}/{split}.csv") for split in ("train", "validation", "test"))
    often = Counter(w for b in learn for i in b.instructions for w in words(i))
    vocabulary = {w: k + 1 for k, (w, n) in enumerate(often.most_common()) if n >= 3}
    model = Network(len(vocabulary) + 1)
    train(model, batches(learn, vocabulary), batches(check, vocabulary), epochs)
    with torch.no_grad():
        predicted = [c for i in range(0, len(test), BATCH) for c in model(Graphs(test[i:i + BATCH], vocabulary)).tolist()]
    blocks.write(out, test, predicted)


main()
