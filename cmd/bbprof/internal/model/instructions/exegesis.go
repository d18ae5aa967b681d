package instructions

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// llvm-exegesis' snippets and results are YAML documents. This reads and writes the subset that llvm-exegesis writes
// (llvm/tools/llvm-exegesis/lib/BenchmarkResult.cpp), a key a line.

// A Snippet is llvm-exegesis' block for an instruction.
type Snippet struct {
	Latency      bool // else inverse_throughput
	Instructions []string
	lines        []string // the document without its first and last
}

// Modes that a block can be measured for.
const (
	latencyMode    = "latency"
	throughputMode = "inverse_throughput"
)

// ReadSnippets reads the output of llvm-exegesis -benchmark-phase=assemble-measured-code, and plans a probe per snippet.
func ReadSnippets(r io.Reader) ([]Plan, error) {
	var plans []Plan
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	var lines []string
	number := 0
	for in.Scan() {
		number++
		switch line := strings.TrimRight(in.Text(), " \r"); {
		case line == "---":
			lines = nil
		case line == "...":
			p, err := planSnippet(lines)
			if err != nil {
				return nil, fmt.Errorf("line %d: the document that ends here: %w", number, err)
			}
			plans = append(plans, p)
		default:
			lines = append(lines, line)
		}
	}
	if in.Err() == nil && len(plans) == 0 {
		return nil, errors.New("it holds no document of llvm-exegesis; make one with llvm-exegesis -mode=latency -opcode-index=-1 --benchmark-phase=assemble-measured-code")
	}
	return plans, in.Err()
}

// field returns a key's value without quotes.
func field(lines []string, key string) string {
	for _, l := range lines {
		if v, ok := strings.CutPrefix(l, key+":"); ok {
			return strings.Trim(strings.TrimSpace(v), "'")
		}
	}
	return ""
}

func planSnippet(lines []string) (Plan, error) {
	s := &Snippet{lines: lines}
	switch mode := field(lines, "mode"); mode {
	case latencyMode:
		s.Latency = true
	case throughputMode:
	default:
		return Plan{}, fmt.Errorf("mode is %q; bbprof measures %s and %s", mode, latencyMode, throughputMode)
	}
	in := false
	for _, l := range lines {
		item, isItem := strings.CutPrefix(strings.TrimSpace(l), "- '")
		switch {
		case strings.TrimSpace(l) == "instructions:":
			in = true
		case in && isItem:
			s.Instructions = append(s.Instructions, strings.TrimSuffix(item, "'"))
		default:
			in = false
		}
	}
	if len(s.Instructions) == 0 {
		return Plan{}, errors.New("its key names no instruction")
	}
	p := Plan{Name: s.Instructions[0], Snippet: s}
	code, err := hex.DecodeString(field(lines, "assembled_snippet"))
	if err != nil {
		return p, fmt.Errorf("assembled_snippet: %w", err)
	}
	repeated, err := repeatedPart(code, len(s.Instructions))
	if err != nil {
		p.Missing = append(p.Missing, err.Error())
		return p, nil
	}
	probe := Probe{Kind: Throughput, body: body{Code: repeated}, Links: len(s.Instructions)}
	if s.Latency {
		probe.Kind, probe.Pair = Latency, "chain of "+words.Plural(len(s.Instructions), "instruction")
	}
	p.Probes = []Probe{probe}
	return p, nil
}

// copiesInSnippet is how often llvm-exegesis repeats the instructions it prints.
const copiesInSnippet = 4

// repeatedPart finds the n instructions that llvm-exegesis repeats, between setting and restoring registers.
func repeatedPart(code []byte, n int) ([]byte, error) {
	insts, err := asm.Decode(code)
	if err != nil {
		return nil, fmt.Errorf("the snippet does not decode: %w", err)
	}
	for at := 0; at+copiesInSnippet*n <= len(insts); at++ {
		end := at + copiesInSnippet*n
		if epilogue(insts[end:]) && periodic(insts[at:end], n) {
			return code[insts[at].Offset : insts[at+n-1].Offset+len(insts[at+n-1].Bytes)], nil
		}
	}
	return nil, fmt.Errorf("the snippet does not repeat %s %d times before it returns", words.Plural(n, "instruction"), copiesInSnippet)
}

func epilogue(insts []asm.Inst) bool {
	for i := range insts[:max(0, len(insts)-1)] {
		if insts[i].Mnemonic != "pop" {
			return false
		}
	}
	return len(insts) > 0 && insts[len(insts)-1].Mnemonic == "ret"
}

func periodic(insts []asm.Inst, n int) bool {
	for i := n; i < len(insts); i++ {
		if string(insts[i].Bytes) != string(insts[i-n].Bytes) {
			return false
		}
	}
	return true
}

// ExegesisModes lists the modes of results. llvm-exegesis reads one mode per file.
func ExegesisModes() []string { return []string{latencyMode, throughputMode} }

// WriteExegesis writes the rows' numbers of one mode as llvm-exegesis' results, one document each, and counts them. It
// omits rows without a number or an LLVM name, and fails if none is left.
func WriteExegesis(w io.Writer, rows []Row, mode, cpu string) (documents int, err error) {
	out := bufio.NewWriter(w)
	nameless := 0
	for i := range rows {
		r := &rows[i]
		m := r.Throughput
		if mode == latencyMode {
			m = r.total()
		}
		switch {
		case m == nil || !(m.Value.Cycles > 0):
			continue
		case r.Snippet != nil:
			r.Snippet.write(out, m)
		case r.Operands != "":
			fmt.Fprintf(out, "---\nmode:            %s\nkey:\n  instructions:\n    - '%s'\n  config:          ''\n  register_initial_values: []\n"+
				"cpu_name:        %s\nllvm_triple:     x86_64-unknown-linux-gnu\nmin_instructions: 10000\n", mode, r.Operands, cpu)
			writeMeasurement(out, mode, m)
			fmt.Fprintf(out, "error:           ''\ninfo:            '%s'\nassembled_snippet: %s\n...\n", "bbprof: "+m.what(), strings.ToUpper(m.Block))
		default:
			nameless++
			continue
		}
		documents++
	}
	switch {
	case documents > 0:
		return documents, out.Flush()
	case nameless == 0:
		return 0, &NothingError{fmt.Sprintf("none of %s has a number for %s", words.Plural(len(rows), "row"), mode)}
	}
	return 0, &NothingError{fmt.Sprintf("LLVM's name is not known of any of the %s that have a number for %s", words.Plural(nameless, "form"), mode)}
}

// A NothingError is why nothing can be written.
type NothingError struct{ why string }

func (e *NothingError) Error() string { return e.why }

// total returns a scheduling model's latency of an instruction: of a load and its use together.
func (r *Row) total() *Measurement {
	if r.Load != nil && (r.Latency == nil || r.Load.Cycles() > r.Latency.Cycles()) {
		return r.Load
	}
	return r.Latency
}

func writeMeasurement(out *bufio.Writer, mode string, m *Measurement) {
	value := strconv.FormatFloat(m.Value.Cycles, 'f', 4, 64)
	snippet := strconv.FormatFloat(m.Result.Cycles.Cycles, 'f', 4, 64)
	fmt.Fprintf(out, "measurements:\n  - { key: %s, value: %s, per_snippet_value: %s, validation_counters: {} }\n", mode, value, snippet)
}

// write repeats the document with the measurement.
func (s *Snippet) write(out *bufio.Writer, m *Measurement) {
	out.WriteString("---\n")
	for _, l := range s.lines {
		switch {
		case strings.HasPrefix(l, "measurements:"):
			mode := throughputMode
			if s.Latency {
				mode = latencyMode
			}
			writeMeasurement(out, mode, m)
		case strings.HasPrefix(l, "error:"):
			out.WriteString("error:           ''\n")
		default:
			out.WriteString(l + "\n")
		}
	}
	out.WriteString("...\n")
}
