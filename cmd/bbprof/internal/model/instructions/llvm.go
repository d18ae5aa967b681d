package instructions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
)

var errNoLLVM = errors.New("llvm-mc is not installed, or not in PATH")

// MC finds an llvm-mc that can name opcodes: that of a version, such as "-22", else the newest in PATH. It must know the
// core, if given. why says why the first cannot.
func MC(ctx context.Context, version, cpu string) (tool string, why error) {
	all := predict.Installed("llvm-mc")
	if wanted := "llvm-mc" + version; version != "" && slices.Contains(all, wanted) {
		all = slices.Insert(all, 0, wanted)
	}
	why = errNoLLVM
	for i, name := range all {
		switch reason := unable(ctx, name, cpu); {
		case reason == nil:
			return name, nil
		case i == 0:
			tool, why = name, reason
		}
	}
	return tool, why
}

// unable returns why an llvm-mc cannot name opcodes: old ones write registers as numbers, and replace unknown cores.
func unable(ctx context.Context, tool, cpu string) error {
	cmd := showInst(ctx, tool, predict.MarkedForMC(1, nil))
	if cpu != "" {
		cmd.Args = append(cmd.Args, "-mcpu="+cpu)
	}
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("is not a recognized processor")):
		return fmt.Errorf("%s does not know %s", tool, cpu)
	case !bytes.Contains(out, []byte("Reg:RIZ>")):
		return fmt.Errorf("%s does not name registers with -show-inst, as llvm-mc-22 does", tool)
	}
	return err
}

func showInst(ctx context.Context, tool, in string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, tool, "--disassemble", "-show-inst", "-triple=x86_64-unknown-linux-gnu")
	cmd.Stdin = strings.NewReader(in)
	return cmd
}

// NameOpcodes sets LLVM's opcode name and an example's operands, by llvm-mc. Unknown forms stay unnamed.
func NameOpcodes(ctx context.Context, tool string, rows []Row) error {
	codes := make([][]byte, len(rows))
	for i := range rows {
		if rows[i].Form != nil {
			codes[i], _ = forms.Example(rows[i].Form) // nil on failure
		}
	}
	return nameCodes(ctx, tool, codes, rows)
}

// nameCodes is NameOpcodes for given examples; nil is none.
func nameCodes(ctx context.Context, tool string, codes [][]byte, rows []Row) error {
	var in strings.Builder
	for i, code := range codes {
		if code != nil {
			in.WriteString(predict.MarkedForMC(i+1, code))
		}
	}
	out, err := showInst(ctx, tool, in.String()).Output() // fails if it does not know one; the other answers count
	if err != nil && len(out) == 0 {
		return fmt.Errorf("%s: %w", tool, err)
	}
	nameFrom(out, rows)
	return nil
}

var (
	mcInst    = regexp.MustCompile(`<MCInst #\d+ (\S+?)>?$`)
	mcOperand = regexp.MustCompile(`<MCOperand (Reg|Imm|Expr|SFPImm|DFPImm):([^>]*)>`)
)

// nameFrom parses the output of llvm-mc -show-inst: a marker, then the instruction of that row.
func nameFrom(out []byte, rows []Row) {
	var row *Row // of the last marker
	named := false
	var words []string // an opcode and its operands
	flush := func() {
		switch {
		case len(words) == 6 && words[0] == "NOOPL" && words[3] == "RIZ":
			n, err := strconv.ParseInt(strings.TrimPrefix(words[4], "i_0x"), 16, 64)
			if err == nil && n > 0 && int(n) <= len(rows) {
				row, named = &rows[n-1], false
			}
		case len(words) == 0 || row == nil:
		case named: // llvm-mc splits it, such as into prefix and instruction
			row.Opcode, row.Operands = "", ""
		default:
			row.Opcode, row.Operands, named = words[0], strings.Join(words, " "), true
		}
		words = nil
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if m := mcInst.FindStringSubmatch(line); m != nil {
			flush()
			words = []string{m[1]}
		}
		if m := mcOperand.FindStringSubmatch(line); m != nil {
			words = append(words, operand(m[1], m[2]))
		}
	}
	flush()
}

func operand(kind, value string) string {
	if n, err := strconv.ParseInt(value, 10, 64); kind == "Imm" && err == nil {
		return fmt.Sprintf("i_0x%x", uint64(n))
	}
	return cmp.Or(value, "%noreg")
}
