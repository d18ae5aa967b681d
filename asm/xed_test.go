package asm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86csv"
	"golang.org/x/arch/x86/xeddata"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// xedFacts are what Intel's XED data says of all encodings of one instruction class: each a set, since a class has
// several encodings.
type xedFacts struct {
	memory         map[placed]bool
	registers      map[bool]map[placed]bool // by whether an opmask merges
	mxcsr, aligned map[bool]bool
	masked         map[bool]bool // EVEX encodings alone
}

// placed is the place of an operand in the text, from 0, and its direction.
type placed struct {
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
func xedDatabase(t *testing.T) xedClasses {
	t.Helper()
	dir := filepath.Join(archDir(t), "x86avxgen", "testdata", "xedpath")
	classes := make(xedClasses)
	err := xeddata.WalkInsts(dir, func(inst *xeddata.Inst) {
		key := xedKey(inst.Iclass, strings.Contains(inst.Pattern, "EVV "), strings.Contains(inst.Pattern, "VEXVALID=1") ||
			strings.Contains(inst.Pattern, "VV1 "))
		f := classes[key]
		if f == nil {
			f = &xedFacts{map[placed]bool{}, map[bool]map[placed]bool{false: {}, true: {}}, map[bool]bool{}, map[bool]bool{}, map[bool]bool{}}
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
	merges := strings.Contains(inst.Operands, "ZEROSTR") && !inst.HasAttribute("MASK_AS_CONTROL")
	for _, op := range strings.Fields(inst.Operands) {
		name, rest, _ := strings.Cut(op, ":")
		switch a := xedAccess(rest); {
		case strings.Contains(rest, "SUPP"):
			continue
		case strings.HasSuffix(name, "MASK1()"), strings.HasSuffix(name, "MASKNOT0()"): // the opmask
			continue
		case strings.HasPrefix(name, "MEM"):
			f.memory[placed{nth, a}] = true
			memory = true
		default:
			f.registers[false][placed{nth, a}] = true
			if merges && a == accWrite {
				a = accBoth
			}
			f.registers[true][placed{nth, a}] = true
		}
		nth++
	}
	f.mxcsr[inst.HasAttribute("MXCSR") || inst.HasAttribute("mxcsr")] = true
	if memory {
		f.aligned[inst.HasAttribute("REQUIRES_ALIGNMENT")] = true
	}
	f.masked[inst.HasAttribute("MASKOP_EVEX")] = true
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

// xedClasses are the facts by class.
type xedClasses map[string]*xedFacts

// of are the facts of a form, nil if XED has no such class.
func (c xedClasses) of(f *form, class encoding) *xedFacts {
	for _, name := range xedNames(f, class) {
		if x := c[name]; x != nil {
			return x
		}
	}
	return nil
}

func eachForm(visit func(class encoding, f *form)) {
	tables().each(func(class encoding, _, _ int, f *form) { visit(class, f) })
}

// TestFormsAgainstXED holds what the tables say of directions, alignment and opmasks against Intel's data, class by class.
func TestFormsAgainstXED(t *testing.T) {
	classes := xedDatabase(t)
	compared, unknown := 0, map[string]bool{}
	eachForm(func(class encoding, f *form) {
		x := classes.of(f, class)
		if x == nil {
			unknown[f.name] = true
			return
		}
		compared++
		for i, o := range f.ops {
			memory := o.kind.memory && f.mod != modReg && !f.agen
			if memory && len(x.memory) > 0 && !x.memory[placed{i, o.access}] && !knownXED(f, "direction") {
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
	})
	t.Logf("%d forms compared, %d mnemonics without a class in XED", compared, len(unknown))
	if compared < 1000 {
		t.Errorf("only %d forms have a class in XED", compared)
	}
}

// example is an instruction of the form with registers of its own for each operand, none of them one that an opcode
// implies; shown are those registers, operand by operand.
func (f *Form) example(t *testing.T) (in *Inst, shown []Values) {
	operands := f.Operands()
	values := make([]int64, len(operands))
	at := Address{Base: R9, Index: -1}
	for i, o := range operands {
		values[i] = int64(i + 10)
		var v Values
		switch n := uint(i + 10); {
		case o.Fixed >= 0:
		case o.Class == GPROperand:
			v.GPR = 1 << n
		case o.Class == VectorOperand:
			v.Vector = 1 << n
		case o.Class == MemoryOperand:
			v.GPR = 1 << at.Base
			if o.Index > 0 {
				at.Index = 9
				v.Vector = 1 << at.Index
			}
		default:
			values[i] = int64(i + 3)
			if o.Class == OpmaskOperand {
				v.Opmask = 1 << values[i]
			}
		}
		shown = append(shown, v)
	}
	code := require.Get(f.Encode(values, at, 1))(t)
	return &mustDecode(t, fmt.Sprintf("%x", code))[0], shown
}

// TestImplicitAgainstXED holds what instructions read and write beside their operands against Intel's data.
func TestImplicitAgainstXED(t *testing.T) {
	known := map[string][]string{}
	for _, row := range require.Table(t, "implicit.txt") {
		for name := range strings.FieldsSeq(row[2]) {
			known[name] = append(known[name], row[0]+" | "+row[1])
		}
	}
	met := map[string]bool{}
	for _, f := range Forms() {
		met[f.Mnemonic()] = true
		if reason, _ := f.Refused(); reason == verdict.Privileged || reason == verdict.UnsupportedISA {
			continue
		}
		in, operands := f.example(t)
		shown := Values{Opmask: 1 << 1, X87: true}
		for _, v := range operands {
			shown = shown.Or(v)
		}
		reads, writes := in.Dataflow()
		got := reads.Without(shown).list() + " | " + writes.Without(shown).list()
		if want := known[f.Mnemonic()]; !slices.Contains(want, got) && (want != nil || got != " | ") {
			t.Errorf("%s: %s, XED %q", f.Name(), got, want)
		}
	}
	for name := range known {
		if !met[name] {
			t.Errorf("no form is called %s", name)
		}
	}
}

// TestRegistersAgainstXED holds the direction of registers against Intel's data, whether an opmask merges or not.
func TestRegistersAgainstXED(t *testing.T) {
	classes, compared := xedDatabase(t), 0
	for _, f := range Forms() {
		x := classes.of(f.raw.form, f.raw.enc)
		if x == nil || f.raw.form.refusal.reason != "" {
			continue
		}
		in, operands := f.example(t)
		reads, writes := in.Dataflow()
		for i, v := range operands {
			if o := f.Operands()[i]; v == (Values{}) || o.Class == MemoryOperand || o.Class == GPROperand && o.Width < 4 { // a part of a register
				continue
			}
			var a access
			if reads.And(v) == v {
				a |= accRead
			}
			if writes.And(v) == v {
				a |= accWrite
			}
			compared++
			if merges := f.Masked() && !f.raw.evexZ; !x.registers[merges][placed{i, a}] && !knownXED(f.raw.form, "register") {
				t.Errorf("%s: register %d is %d, XED %v", f.Name(), i, a, x.registers[merges])
			}
		}
	}
	t.Logf("%d registers compared", compared)
	if compared < 10000 {
		t.Errorf("only %d registers compared", compared)
	}
}

// knownXED are the differences that are on purpose, by fact.
func knownXED(f *form, fact string) bool {
	switch fact {
	case "direction": // the header of a save area is read as well as written; all are refused
		return f.refusal.reason != ""
	case "register": // gathers keep what their mask leaves out, bsf and bsr of 0 all; the others read their destination in this old data alone
		return f.vsib || slices.Contains([]string{"bsf", "bsr", "andn", "pext", "pdep"}, f.name)
	case "mxcsr": // XED's attribute says "reads MXCSR": these do, and raise nothing
		for _, stem := range []string{"vrcp14", "vrsqrt14", "vfpclass", "vcvtdq2pd", "vldmxcsr"} {
			if strings.HasPrefix(f.name, stem) {
				return true
			}
		}
	}
	return false
}

// TestOperandsAgainstManual holds the direction of operands of legacy instructions against x86.v0.2.csv of
// golang.org/x/arch, made from Intel's manual.
func TestOperandsAgainstManual(t *testing.T) {
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
			merges := o.access == accBoth && (!o.kind.memory || f.mod == modReg) // which the list does not say
			if !listed[place{f.name, len(f.ops), i, 0}] || f.agen || f.isX87 || merges {
				continue
			}
			compared++
			if !actions[place{f.name, len(f.ops), i, o.access}] && !listIsWrong[f.name] {
				t.Errorf("%s: operand %d is %d to us alone", f.name, i, o.access)
			}
		}
	})
	t.Logf("%d operands compared", compared)
}

// listIsWrong are instructions of which the list has an operand wrong: shifts read what they shift, setcc writes,
// one-operand imul and div read, a flush writes nothing, and vphsub does not read its destination.
var listIsWrong = names("vphsubw vphsubd vphsubsw rol ror rcl rcr shld shrd imul div clflush clflushopt " +
	"seto setno setb setae sete setne setbe seta sets setns setp setnp setl setge setle setg")
