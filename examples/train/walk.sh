#!/bin/bash
# walk.sh DIR [PROGRAM...]: from programs to the errors of models trained on them; docs/dataset.md walks through it.
# BLOCKS=N takes fewer blocks, MODELS='linear trees' fewer models, EPOCHS=N fewer of the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
shift
[ $# -gt 0 ] || set -- $(find /usr/bin /usr/lib/x86_64-linux-gnu /usr/lib/python3 -type f -size +100k -size -6000k \( -name '*.so*' -o -perm -u+x \))
python=/usr/bin/python3 # the one that Debian's packages are for
export OMP_NUM_THREADS=1
step() { echo "$SECONDS s: $1" >&2; }

mkdir -p "$out"
step extract
$python "$here/sample.py" "${BLOCKS:-60000}" "$@" >"$out/blocks.csv"
step batch
bbprof batch -q -resume -o "$out/results.csv" "$out/blocks.csv"
step dataset
bbprof dataset -application application -o "$out/data" "$out/results.csv"

step train
arguments=()
jobs=()
for model in ${MODELS:-nearest linear trees network}; do
	more=
	[ "$model" != network ] || more=${EPOCHS:-}
	$python "$here/$model.py" "$out/data" "$out/$model.csv" $more &
	jobs+=($!)
	arguments+=(-model "$model=$out/$model.csv")
done
for job in "${jobs[@]}"; do wait "$job"; done

step score
! command -v llvm-mca-22 >/dev/null || arguments+=(-model llvm-mca-22)
core=$(sed -n 's/.*"microarchitecture": "\([^"]*\)".*/\1/p' "$out/data/datasheet.json" | head -1)
bbprof score -q -core "$core" -by category "${arguments[@]}" -o "$out/report.txt" "$out/data/test.csv"
sed '/^$/q' "$out/report.txt"
step done
