package instructions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
)

// ErrNoLLVM says that no llvm-mc is there to name opcodes.
var ErrNoLLVM = errors.New("llvm-mc is not installed, or not in PATH")

// NameOpcodes gives rows LLVM's name of their opcode and the operands of an example, by llvm-mc of the version
// that is named, such as "-22", or "". A form that llvm-mc does not know stays without.
func NameOpcodes(ctx context.Context, version string, rows []Row) error {
	tool, err := exec.LookPath("llvm-mc" + version)
	if err != nil {
		return ErrNoLLVM
	}
	var in strings.Builder
	for i := range rows {
		if rows[i].Form == nil {
			continue
		}
		code, err := forms.Example(rows[i].Form)
		if err != nil {
			continue
		}
		in.WriteString(predict.MarkedForMC(i+1, code))
	}
	cmd := exec.CommandContext(ctx, tool, "--disassemble", "-show-inst", "-triple=x86_64-unknown-linux-gnu")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output() // fails if there is one that it does not know; what it says of the others counts
	if err != nil && len(out) == 0 {
		return fmt.Errorf("llvm-mc%s: %w", version, err)
	}
	nameFrom(out, rows)
	return nil
}

var (
	mcInst    = regexp.MustCompile(`<MCInst #\d+ (\S+?)>?$`)
	mcOperand = regexp.MustCompile(`<MCOperand (Reg|Imm|Expr|SFPImm|DFPImm):([^>]*)>`)
)

// nameFrom reads what llvm-mc -show-inst wrote.
func nameFrom(out []byte, rows []Row) {
	current, expected := -1, false
	var opcode string
	var operands []string
	flush := func() {
		switch {
		case opcode == "":
		case opcode == "NOOPL" && len(operands) == 5 && operands[2] == "RIZ":
			n, err := strconv.ParseInt(strings.TrimPrefix(operands[3], "i_0x"), 16, 64)
			if err == nil && n > 0 && int(n) <= len(rows) {
				current, expected = int(n)-1, true
			}
		case expected:
			rows[current].Opcode, rows[current].Operands = opcode, strings.Join(append([]string{opcode}, operands...), " ")
			expected = false
		default: // llvm-mc makes two of it, such as a prefix and an instruction
			rows[max(current, 0)].Opcode, rows[max(current, 0)].Operands = "", ""
		}
		opcode, operands = "", nil
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := mcInst.FindStringSubmatch(line); m != nil {
			flush()
			opcode = m[1]
		}
		if m := mcOperand.FindStringSubmatch(line); m != nil {
			operands = append(operands, operand(m[1], m[2]))
		}
	}
	flush()
}

// operand is one as llvm-exegesis reads it.
func operand(kind, value string) string {
	switch {
	case kind == "Imm":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return value
		}
		return fmt.Sprintf("i_0x%x", uint64(n))
	case value == "":
		return "%noreg"
	}
	return value
}
