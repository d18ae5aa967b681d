package instructions

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
)

// ErrNoLLVM reports that there is no llvm-mc to name opcodes.
var ErrNoLLVM = errors.New("llvm-mc is not installed, or not in PATH")

// MC finds an llvm-mc that can name opcodes: that of a version, such as "-22", else the newest in PATH. It must know the
// core, if given. why says why the one found cannot.
func MC(ctx context.Context, version, cpu string) (tool string, why error) {
	all := mcs(ctx)
	if i := slices.IndexFunc(all, func(c mc) bool { return version != "" && filepath.Base(c.path) == "llvm-mc"+version }); i >= 0 {
		all = slices.Concat(all[i:i+1], all)
	}
	why = ErrNoLLVM
	for i, c := range all {
		switch reason := c.unable(ctx, cpu); {
		case reason == nil:
			return c.path, nil
		case i == 0:
			tool, why = c.path, reason
		}
	}
	return tool, why
}

// mc is an installed llvm-mc.
type mc struct {
	path    string
	version int
}

var mcVersion = regexp.MustCompile(`version (\d+)`)

// mcs lists those in PATH, the newest first.
func mcs(ctx context.Context) (all []mc) {
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		names, _ := filepath.Glob(filepath.Join(dir, "llvm-mc*"))
		for _, path := range names {
			name := filepath.Base(path)
			suffix := strings.TrimPrefix(strings.TrimPrefix(name, "llvm-mc"), "-")
			version, err := strconv.Atoi(suffix)
			if err != nil && suffix != "" || seen[name] { // llvm-mca
				continue
			}
			if path, err = exec.LookPath(path); err != nil {
				continue
			}
			if suffix == "" {
				out, _ := exec.CommandContext(ctx, path, "--version").Output() // 0 on failure
				if m := mcVersion.FindSubmatch(out); m != nil {
					version, _ = strconv.Atoi(string(m[1]))
				}
			}
			seen[name] = true
			all = append(all, mc{path, version})
		}
	}
	slices.SortStableFunc(all, func(a, b mc) int { return cmp.Compare(b.version, a.version) })
	return all
}

// unable returns why an llvm-mc cannot name opcodes: old ones write registers as numbers, and replace unknown cores.
func (c mc) unable(ctx context.Context, cpu string) error {
	args := []string{"--disassemble", "-show-inst", "-triple=x86_64-unknown-linux-gnu"}
	if cpu != "" {
		args = append(args, "-mcpu="+cpu)
	}
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Stdin = strings.NewReader(predict.MarkedForMC(1, nil))
	out, err := cmd.CombinedOutput()
	name := fmt.Sprintf("%s (version %d)", filepath.Base(c.path), c.version)
	switch {
	case bytes.Contains(out, []byte("is not a recognized processor")):
		return fmt.Errorf("%s does not know %s", name, cpu)
	case !bytes.Contains(out, []byte("Reg:RIZ>")):
		return fmt.Errorf("%s does not name registers with -show-inst, as llvm-mc-22 does", name)
	}
	return err
}

// NameOpcodes sets LLVM's opcode name and an example's operands, by llvm-mc. Unknown forms stay unnamed.
func NameOpcodes(ctx context.Context, tool string, rows []Row) error {
	codes := make([][]byte, len(rows))
	for i := range rows {
		codes[i], _ = forms.Example(rows[i].Form) // nil on failure
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
	cmd := exec.CommandContext(ctx, tool, "--disassemble", "-show-inst", "-triple=x86_64-unknown-linux-gnu")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output() // fails if it does not know one; the other answers count
	if err != nil && len(out) == 0 {
		return fmt.Errorf("%s: %w", filepath.Base(tool), err)
	}
	nameFrom(out, rows)
	return nil
}

var (
	mcInst    = regexp.MustCompile(`<MCInst #\d+ (\S+?)>?$`)
	mcOperand = regexp.MustCompile(`<MCOperand (Reg|Imm|Expr|SFPImm|DFPImm):([^>]*)>`)
)

// nameFrom parses the output of llvm-mc -show-inst.
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
		default: // llvm-mc splits it, such as into prefix and instruction
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

// operand formats an operand for llvm-exegesis.
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
