package instructions

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// A Snippet is llvm-exegesis' block for an instruction.
type Snippet struct {
	Latency      bool // else inverse throughput
	Instructions []string
	lines        []string // of its document, which llvm-exegesis writes as one key a line
}

// ReadSnippets reads what llvm-exegesis -benchmark-phase=assemble-measured-code writes, and plans a probe for each.
func ReadSnippets(r io.Reader) ([]Plan, error) {
	var plans []Plan
	var lines []string
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	for number := 1; in.Scan(); number++ {
		switch line := strings.TrimRight(in.Text(), " \r"); line {
		case "---":
			lines = nil
		case "...":
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
		return nil, errors.New("it holds no document of llvm-exegesis; make one with " +
			"llvm-exegesis -mode=latency -opcode-index=-1 --benchmark-phase=assemble-measured-code")
	}
	return plans, in.Err()
}

func planSnippet(lines []string) (Plan, error) {
	s := &Snippet{lines: lines}
	switch mode := s.field("mode"); mode {
	case latencyMode:
		s.Latency = true
	case throughputMode:
	default:
		return Plan{}, fmt.Errorf("mode is %q; bbprof measures %s and %s", mode, latencyMode, throughputMode)
	}
	for _, l := range lines[1+slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "instructions:" }):] {
		item, isItem := strings.CutPrefix(strings.TrimSpace(l), "- '")
		if !isItem {
			break
		}
		s.Instructions = append(s.Instructions, strings.TrimSuffix(item, "'"))
	}
	if len(s.Instructions) == 0 {
		return Plan{}, errors.New("its key names no instruction")
	}
	p := Plan{Name: s.Instructions[0], Snippet: s}
	code, err := hex.DecodeString(s.field("assembled_snippet"))
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

// field returns a key's value without quotes.
func (s *Snippet) field(key string) string {
	for _, l := range s.lines {
		if v, ok := strings.CutPrefix(l, key+":"); ok {
			return strings.Trim(strings.TrimSpace(v), "'")
		}
	}
	return ""
}

// repeatedPart finds the n instructions that llvm-exegesis repeats, between setting and restoring registers.
func repeatedPart(code []byte, n int) ([]byte, error) {
	insts, err := asm.Decode(code)
	if err != nil {
		return nil, fmt.Errorf("the snippet does not decode: %w", err)
	}
	const copies = 4 // which llvm-exegesis prints
	for at := 0; at+copies*n < len(insts); at++ {
		end := at + copies*n
		if periodic(insts[at:end], n) && epilogue(insts[end:]) {
			return code[insts[at].Offset:insts[at+n].Offset], nil
		}
	}
	return nil, fmt.Errorf("the snippet does not repeat %s %d times before it returns", words.Plural(n, "instruction"), copies)
}

// epilogue reports whether the instructions restore registers and return.
func epilogue(insts []asm.Inst) bool {
	last := len(insts) - 1
	return insts[last].Mnemonic == "ret" && !slices.ContainsFunc(insts[:last], func(in asm.Inst) bool { return in.Mnemonic != "pop" })
}

func periodic(insts []asm.Inst, n int) bool {
	for i := n; i < len(insts); i++ {
		if string(insts[i].Bytes) != string(insts[i-n].Bytes) {
			return false
		}
	}
	return true
}

// write writes the snippet's document with its measurement.
func (s *Snippet) write(out io.Writer, mode string, m *Measurement) {
	fmt.Fprintln(out, "---")
	for _, l := range s.lines {
		switch {
		case strings.HasPrefix(l, "measurements:"):
			l = fmt.Sprintf(exegesisMeasurement, mode, m.Cycles(), m.Result.Cycles.Cycles)
		case strings.HasPrefix(l, "error:"):
			l = "error:           ''"
		}
		fmt.Fprintln(out, l)
	}
	fmt.Fprintln(out, "...")
}
