#!/usr/bin/python3
"""sample.py BLOCKS FILE...: a corpus of BLOCKS distinct blocks out of programs and libraries, as many of each as there are.

BBPROF names the program, such as ./bbprof. Blocks are chosen by hash, so the same files give the same corpus."""
import concurrent.futures, csv, hashlib, os, subprocess, sys

BBPROF = os.environ.get("BBPROF", "bbprof")
MOST = 64  # instructions: longer blocks are few and take most of the time


def extract(path):
    """The blocks of a file as (hash, hex, address), least hash first; none of what is not a program."""
    run = subprocess.run([BBPROF, "extract", "-q", "-unique", "-max", str(MOST), path], capture_output=True, text=True)
    rows = csv.DictReader(run.stdout.splitlines())
    return sorted((hashlib.sha256(r["hex"].encode()).digest(), r["hex"], r["address"]) for r in rows)


def main():
    wanted, paths = int(sys.argv[1]), sorted({os.path.realpath(p) for p in sys.argv[2:]})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        files = dict(zip(paths, pool.map(lambda p: extract(p)[:wanted], paths)))
    chosen, each = {}, 0  # hex -> (application, address)
    while len(chosen) < wanted and any(len(blocks) > each for blocks in files.values()):
        for path, blocks in files.items():  # the next of each file, in turn: no program is most of the corpus
            if each < len(blocks) and len(chosen) < wanted:
                _, code, address = blocks[each]
                chosen.setdefault(code, (os.path.basename(path), address))
        each += 1
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["hex", "application", "address"])
    out.writerows((code, *where) for code, where in chosen.items())


main()
