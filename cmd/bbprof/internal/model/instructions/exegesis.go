package instructions

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// Modes of llvm-exegesis that a number belongs to.
const (
	latencyMode    = "latency"
	throughputMode = "inverse_throughput"
)

// ExegesisModes lists the modes of results. llvm-exegesis reads one mode per file.
func ExegesisModes() []string { return []string{latencyMode, throughputMode} }

const exegesisMeasurement = "measurements:\n  - { key: %s, value: %.4f, per_snippet_value: %.4f, validation_counters: {} }"

// exegesisDocument is a result as llvm-exegesis writes it (llvm/tools/llvm-exegesis/lib/BenchmarkResult.cpp).
const exegesisDocument = `---
mode:            %s
key:
  instructions:
    - '%s'
  config:          ''
  register_initial_values: []
cpu_name:        %s
llvm_triple:     x86_64-unknown-linux-gnu
min_instructions: 10000
%s
error:           ''
info:            'bbprof: %s'
assembled_snippet: %s
...
`

// Exegesis returns the rows' numbers of one mode as llvm-exegesis writes results, and counts its documents. Rows without a
// number or an LLVM name have none; why says why no row has one.
func Exegesis(rows []Row, mode, cpu string) (text string, documents int, why string) {
	var out strings.Builder
	nameless := 0
	for i := range rows {
		r := &rows[i]
		m := r.Throughput
		if mode == latencyMode {
			m = r.total()
		}
		switch {
		case m == nil || !(m.Cycles() > 0):
			continue
		case r.Snippet != nil:
			r.Snippet.write(&out, mode, m)
		case r.Operands == "":
			nameless++
			continue
		default:
			measured := fmt.Sprintf(exegesisMeasurement, mode, m.Cycles(), m.Result.Cycles.Cycles)
			fmt.Fprintf(&out, exegesisDocument, mode, r.Operands, cpu, measured, m.what(), strings.ToUpper(m.Block))
		}
		documents++
	}
	if nameless > 0 {
		return out.String(), documents, fmt.Sprintf("LLVM's name is not known of any of the %s that have a number for %s", words.Plural(nameless, "form"), mode)
	}
	return out.String(), documents, fmt.Sprintf("none of %s has a number for %s", words.Plural(len(rows), "row"), mode)
}

// total returns a scheduling model's latency of an instruction: of a load and its use together.
func (r *Row) total() *Measurement {
	if r.Load != nil && (r.Latency == nil || r.Load.Cycles() > r.Latency.Cycles()) {
		return r.Load
	}
	return r.Latency
}
