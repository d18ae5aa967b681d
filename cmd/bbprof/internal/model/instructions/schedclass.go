package instructions

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// SchedClasses returns the scheduling classes of instructions in LLVM's model of a core, "" if unknown. llvm-exegesis
// prints them when it analyses results: here one per instruction, whose value is its number.
func SchedClasses(ctx context.Context, cpu string, codes [][]byte) ([]string, error) {
	mc, err := MC(ctx, "", cpu)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(codes))
	if err := nameCodes(ctx, mc, codes, rows); err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Throughput = &Measurement{Block: hex.EncodeToString(codes[i])}
		rows[i].Throughput.Value.Cycles = float64(i + 1)
	}
	results, _, _ := Exegesis(rows, throughputMode, cpu)
	dir, err := os.MkdirTemp("", "bbprof")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "results.yaml")
	if err := os.WriteFile(file, []byte(results), 0o600); err != nil {
		return nil, err
	}
	tool := strings.Replace(mc, "llvm-mc", "llvm-exegesis", 1)
	out, err := exec.CommandContext(ctx, tool, "-mode=analysis", "-benchmarks-file="+file, "-analysis-clusters-output-file=-", "-analysis-numpoints=1").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	names := make([]string, len(codes))
	for line := range strings.Lines(string(out)) {
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(fields) != 5 {
			continue
		}
		if n, err := strconv.ParseFloat(fields[4], 64); err == nil && n >= 1 && math.Round(n) <= float64(len(names)) {
			names[int(math.Round(n))-1] = fields[3]
		}
	}
	return names, nil
}
