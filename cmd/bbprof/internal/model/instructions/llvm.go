package instructions

import (
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

type mc struct {
	path    string
	version int
}

var (
	mcName    = regexp.MustCompile(`^llvm-mc(?:-(\d+))?$`) // not llvm-mca
	mcVersion = regexp.MustCompile(`version (\d+)`)
)

// mcs lists those in PATH, the newest first.
func mcs(ctx context.Context) (all []mc) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		names, _ := filepath.Glob(filepath.Join(dir, "llvm-mc*"))
		for _, path := range names {
			m := mcName.FindStringSubmatch(filepath.Base(path))
			path, err := exec.LookPath(path)
			hidden := slices.ContainsFunc(all, func(c mc) bool { return filepath.Base(c.path) == filepath.Base(path) })
			if m == nil || err != nil || hidden {
				continue
			}
			version := m[1]
			if version == "" {
				out, _ := exec.CommandContext(ctx, path, "--version").Output() // 0 on failure
				if m := mcVersion.FindSubmatch(out); m != nil {
					version = string(m[1])
				}
			}
			n, _ := strconv.Atoi(version)
			all = append(all, mc{path, n})
		}
	}
	slices.SortStableFunc(all, func(a, b mc) int { return cmp.Compare(b.version, a.version) })
	return all
}

// unable returns why an llvm-mc cannot name opcodes: old ones write registers as numbers, and replace unknown cores.
func (c mc) unable(ctx context.Context, cpu string) error {
	cmd := showInst(ctx, c.path, predict.MarkedForMC(1, nil))
	if cpu != "" {
		cmd.Args = append(cmd.Args, "-mcpu="+cpu)
	}
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
		return fmt.Errorf("%s: %w", filepath.Base(tool), err)
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
