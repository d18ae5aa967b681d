package asm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86csv"
	"golang.org/x/arch/x86/xeddata"

	"github.com/bbprof/bbprof/internal/require"
)

// xedFacts are what Intel's XED data says of all encodings of one instruction class: each a set, since a class has
// several encodings.
type xedFacts struct {
	memory         map[memoryOperand]bool
	mxcsr, aligned map[bool]bool
	masked         map[bool]bool     // EVEX encodings alone
	written        uint16            // general registers that no operand shows
	flags          map[[2]Flags]bool // read and written
}

// memoryOperand is the place of an operand in the text, from 0, and its direction.
type memoryOperand struct {
	nth    int
	access access
}

// archDir is where the data of golang.org/x/arch lies; it skips the test if nowhere.
func archDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/arch").Output()
	if err != nil {
		require.Skip(t, require.Modules, "the go command cannot say where golang.org/x/arch is: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "x86")
}

// xedDatabase reads the XED data that golang.org/x/arch carries for its own tests.
func xedDatabase(t *testing.T) map[string]*xedFacts {
	t.Helper()
	dir := filepath.Join(archDir(t), "x86avxgen", "testdata", "xedpath")
	classes := make(map[string]*xedFacts)
	err := xeddata.WalkInsts(dir, func(inst *xeddata.Inst) {
		key := xedKey(inst.Iclass, strings.Contains(inst.Pattern, "EVV "), strings.Contains(inst.Pattern, "VEXVALID=1") ||
			strings.Contains(inst.Pattern, "VV1 "))
		f := classes[key]
		if f == nil {
			f = &xedFacts{map[memoryOperand]bool{}, map[bool]bool{}, map[bool]bool{}, map[bool]bool{}, 0, map[[2]Flags]bool{}}
			classes[key] = f
		}
		f.add(inst)
	})
	if err != nil {
		require.Skip(t, require.Modules, "no XED data in golang.org/x/arch: %v", err)
	}
	return classes
}

func xedKey(iclass string, evex, vex bool) string {
	switch {
	case evex:
		return iclass + " EVEX"
	case vex:
		return iclass + " VEX"
	}
	return iclass
}

func (f *xedFacts) add(inst *xeddata.Inst) {
	memory, nth := false, 0
	for _, op := range strings.Fields(inst.Operands) {
		name, rest, _ := strings.Cut(op, ":")
		switch a := xedAccess(rest); {
		case strings.Contains(rest, "SUPP"):
			if a&accWrite != 0 {
				f.written |= xedGPR(name)
			}
			continue
		case strings.HasSuffix(name, "MASK1()"), strings.HasSuffix(name, "MASKNOT0()"): // the opmask
			continue
		case strings.HasPrefix(name, "MEM"):
			f.memory[memoryOperand{nth, a}] = true
			memory = true
		}
		nth++
	}
	f.mxcsr[inst.HasAttribute("MXCSR") || inst.HasAttribute("mxcsr")] = true
	if memory {
		f.aligned[inst.HasAttribute("REQUIRES_ALIGNMENT")] = true
	}
	f.masked[inst.HasAttribute("MASKOP_EVEX")] = true
	var flags [2]Flags
	for word := range strings.FieldsSeq(inst.Flags) {
		name, action, _ := strings.Cut(word, "-")
		flag := map[string]Flags{"cf": Carry, "of": Overflow, "sf": Sign, "zf": Zero, "af": Adjust, "pf": Parity}[name]
		if action == "tst" {
			flags[0] |= flag
		} else {
			flags[1] |= flag
		}
	}
	f.flags[flags] = true
}

func xedAccess(rest string) (a access) {
	mode, _, _ := strings.Cut(rest, ":")
	if strings.Contains(mode, "r") {
		a |= accRead
	}
	if strings.Contains(mode, "w") {
		a |= accWrite
	}
	return a
}

// xedGPR is the general register of a suppressed operand such as REG1=OrAX() or REG0=XED_REG_EDX; none for any other.
func xedGPR(name string) uint16 {
	_, reg, _ := strings.Cut(name, "=")
	reg = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(reg), "xed_reg_"), "()")
	reg = strings.Replace(reg, "or", "r", 1)
	for _, names := range gprNames {
		for n, s := range names {
			if s == reg {
				return 1 << n
			}
		}
	}
	return 0
}

// xedNames are the classes that a form may belong to: XED spells conditions and a few others its own way.
func xedNames(f *form, class encoding) []string {
	name := strings.ToUpper(f.name)
	names := []string{name, name + "_XMM", name + "_NEAR"}
	for _, stem := range []string{"J", "SET", "CMOV"} {
		if cond, ok := strings.CutPrefix(name, stem); ok {
			names = append(names, stem+map[string]string{"AE": "NB", "E": "Z", "NE": "NZ", "A": "NBE", "GE": "NL", "G": "NLE"}[cond])
		}
	}
	suffix := [numEncodings]string{"", " VEX", " EVEX"}[class]
	for i := range names {
		names[i] += suffix
	}
	return names
}

func eachForm(visit func(class encoding, f *form)) {
	tables().each(func(class encoding, _, _ int, f *form) { visit(class, f) })
}

// TestFormsAgainstXED holds what the tables say of directions, flags, alignment, opmasks and hidden registers against
// Intel's data, class by class.
func TestFormsAgainstXED(t *testing.T) {
	classes := xedDatabase(t)
	compared, withFlags, unknown := 0, 0, map[string]bool{}
	eachForm(func(class encoding, f *form) {
		var x *xedFacts
		for _, name := range xedNames(f, class) {
			if x = classes[name]; x != nil {
				break
			}
		}
		if x == nil {
			unknown[f.name] = true
			return
		}
		compared++
		var flags [2]Flags
		flags[0], flags[1] = (&rawInst{form: f}).flags()
		if flags != [2]Flags{} {
			withFlags++
		}
		if !x.flags[flags] && !knownXED(f, "flags") {
			t.Errorf("%s: %v, XED %v", f.name, flags, x.flags)
		}
		for i, o := range f.ops {
			memory := o.kind.memory && f.mod != modReg && !f.agen
			if memory && len(x.memory) > 0 && !x.memory[memoryOperand{i, o.access}] && !knownXED(f, "direction") {
				t.Errorf("%s: operand %d is %d, XED %v", f.name, i, o.access, x.memory)
			}
			if memory && class == encEVEX && len(x.aligned) == 1 && x.aligned[f.aligned] == false && !knownXED(f, "alignment") {
				t.Errorf("%s: aligned %v, XED %v", f.name, f.aligned, x.aligned)
			}
		}
		if !x.mxcsr[f.fp] && class != encLegacy && !knownXED(f, "mxcsr") {
			t.Errorf("%s: MXCSR %v, XED %v", f.name, f.fp, x.mxcsr)
		}
		if class == encEVEX && !x.masked[!f.noMask] && !knownXED(f, "mask") {
			t.Errorf("%s: opmask %v, XED %v", f.name, !f.noMask, x.masked)
		}
		if missing := x.written &^ hiddenWrites(f); missing != 0 && f.refusal.reason == "" && !knownXED(f, "register") {
			t.Errorf("%s: writes registers %#x that XED hides, table has %#x", f.name, x.written, hiddenWrites(f))
		}
	})
	t.Logf("%d forms compared, %d mnemonics without a class in XED", compared, len(unknown))
	if compared < 1000 || withFlags < 30 {
		t.Errorf("only %d forms have a class in XED, %d of them with flags", compared, withFlags)
	}
}

// hiddenWrites are the registers that a form writes without an operand in its text.
func hiddenWrites(f *form) uint16 {
	w := f.writes.GPR
	for _, o := range f.ops {
		switch o.kind {
		case opX:
			w |= 1<<numSI | 1<<numCX
		case opY:
			w |= 1<<numDI | 1<<numCX
		case opA:
			w |= 1 << numAX
		}
	}
	return w
}

// knownXED are the differences that are on purpose, by fact.
func knownXED(f *form, fact string) bool {
	switch fact {
	case "direction": // the header of a save area is read as well as written; all are refused
		return f.refusal.reason != ""
	case "flags": // these clear what XED leaves out, or leave alone what the manual leaves undefined
		return f.refusal.reason != "" || slices.Contains([]string{"vptest", "vtestps", "vtestpd", "bsf", "bsr"}, f.name)
	case "mxcsr": // XED's attribute says "reads MXCSR": these do, and raise nothing
		for _, stem := range []string{"vrcp14", "vrsqrt14", "vfpclass", "vcvtdq2pd", "vldmxcsr"} {
			if strings.HasPrefix(f.name, stem) {
				return true
			}
		}
	}
	return false
}

// TestMemoryAgainstManual holds the direction of memory operands of legacy instructions against x86.v0.2.csv of
// golang.org/x/arch, made from Intel's manual.
func TestMemoryAgainstManual(t *testing.T) {
	file, err := os.Open(filepath.Join(archDir(t), "x86.v0.2.csv"))
	if err != nil {
		require.Skip(t, require.Modules, "no instruction list in golang.org/x/arch: %v", err)
	}
	defer file.Close()
	list := require.Get(x86csv.NewReader(file).ReadAll())(t)
	type place struct {
		name          string
		operands, nth int
		access        access
	}
	actions, listed := map[place]bool{}, map[place]bool{} // the latter without its access
	for _, inst := range list {
		args := inst.IntelArgs()
		modes := strings.Split(inst.Action, ",")
		if len(args) != len(modes) || inst.Mode64 != "V" {
			continue
		}
		for i := range args {
			at := place{strings.ToLower(inst.IntelOpcode()), len(args), i, 0}
			listed[at] = true
			at.access = xedAccess(modes[i])
			actions[at] = true
		}
	}
	compared := 0
	eachForm(func(class encoding, f *form) {
		if f.refusal.reason != "" {
			return
		}
		for i, o := range f.ops {
			if !listed[place{f.name, len(f.ops), i, 0}] || f.agen || !o.kind.memory || f.mod == modReg {
				continue
			}
			compared++
			if !actions[place{f.name, len(f.ops), i, o.access}] && !listIsWrong[f.name] {
				t.Errorf("%s: operand %d is %d to us alone", f.name, i, o.access)
			}
		}
	})
	t.Logf("%d memory operands compared", compared)
}

// listIsWrong are instructions whose memory operand the list has wrong: shifts read what they shift, setcc writes,
// one-operand imul and div read, and a flush writes nothing.
var listIsWrong = names("rol ror rcl rcr shld shrd imul div clflush clflushopt " +
	"seto setno setb setae sete setne setbe seta sets setns setp setnp setl setge setle setg")
