# An llvm-mca for which 0xab takes a³/b cycles; it cannot parse 05, hangs at 06 and crashes at 07. $RUNS gets a line for each run.
case "$*" in *--version*) echo "version 0"; exit;; esac
for a in "$@"; do case $a in -iterations=*) n=${a#-iterations=};; esac; done
line=0
while read -r op a b; do line=$((line+1)); case "$op $a $b" in
"op 0 5") echo "<stdin>:$line:1: error: bogus" >&2; bad=1;;
"op 0 6") exec sleep 100;;
"op 0 7") echo crash >&2; exit 134;;
"op "*) cycles=$((n*a*a*a/b+17));;
"# LLVM-MCA-BEGIN "*) name=$b;;
"# LLVM-MCA-END "*) names="$names $name"
regions="$regions$comma{\"Name\":\"$name\",\"SummaryView\":{\"Instructions\":$n,\"TotalCycles\":$cycles}}"; comma=,;;
esac; done
test -z "$bad" || exit 1
echo "$n$names" >> "$RUNS"
echo "{\"CodeRegions\":[$regions]}"
