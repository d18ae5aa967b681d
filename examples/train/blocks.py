"""The blocks of a dataset that bbprof sealed, with what every model computes of them: forms, operands, dependencies."""
import csv, sys
from dataclasses import dataclass


@dataclass
class Instruction:
    text: str  # "add rax, qword ptr [rsp+0x8]"
    form: str  # "add r64, m64"
    reads: list  # registers, flags and addresses: ["rax", "rsp", "[rsp+0x8]"]
    writes: list


class Block:
    def __init__(self, row):
        self.hex, self.speeds = row["hex"], int(row["speeds"] or 1)
        self.cycles, self.low, self.high = (float(row[c]) for c in ("cycles", "ci_low", "ci_high"))
        # What a label is worth: one that is uncertain by 2 % counts half of one that is certain.
        self.weight = 1 / (1 + ((self.high - self.low) / 2 / self.cycles / 0.02) ** 2)
        fields = (i.split("|") for i in row["tokens"].split(";"))
        self.instructions = [Instruction(t, f, r.split(), w.split()) for t, f, r, w in fields]

    def edges(self):
        """(writer, reader, value, carried) of each value that an instruction waits for; carried: of the iteration before."""
        last, found = {}, []
        for carried in (True, False):  # the first pass only finds who writes last
            for i, instruction in enumerate(self.instructions):
                for value in instruction.reads if not carried else ():
                    if value in last:
                        writer, before = last[value]
                        found.append((writer, i, value, before))
                last.update((value, (i, carried)) for value in instruction.writes)
        return found


def read(path):
    csv.field_size_limit(sys.maxsize)
    with open(path, newline="") as file:
        return [Block(row) for row in csv.DictReader(file)]


def write(path, blocks, cycles):
    """Predictions as `bbprof score -model NAME=FILE` reads them."""
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("hex", "cycles"), *((b.hex, f"{c:.4f}") for b, c in zip(blocks, cycles))])
