package resultfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/initial"
)

// errOneSnippet is of a second block: llvm-exegesis would take both for one.
var errOneSnippet = errors.New("llvm-exegesis takes one snippet a file; name a directory, such as -o snippets/")

// ErrBranch is of a block that no snippet can hold: llvm-exegesis takes instructions alone, without labels.
var ErrBranch = errors.New("it ends in a branch, which llvm-exegesis does not take")

// exegesis writes a snippet as assemble.StartOf and llvm-exegesis -snippets-file read it. llvm-exegesis 22 takes no
// value for MXCSR and the segments' bases; bbprof does.
func exegesis(b *export) error {
	if b.n > 0 {
		return errOneSnippet
	}
	insts, err := asm.DecodeHex(b.cell("hex"))
	if err != nil {
		return err
	}
	if _, branches := asm.TrailingBranch(insts); branches {
		return ErrBranch
	}
	state, err := b.state()
	if err != nil {
		return err
	}
	b.out = fmt.Appendf(b.out, "# %s %s cycles\n", b.cell("hex"), b.cell("cycles"))
	note := func(what string, values ...any) {
		b.out = fmt.Appendln(append(b.out, "# "+assemble.AnnotationMark+what+" "...), values...)
	}
	low := state // the lowest words, which Gematria's annotations hold
	low.Vectors = slices.Clone(state.Vectors)
	for i, v := range low.Vectors {
		low.Vectors[i].Words = [8]uint64{v.Words[0]}
	}
	a, err := b.annotated(insts, low)
	if err != nil {
		return err
	}
	for _, r := range a.Registers {
		name, value := r.Name, fmt.Sprintf("%016x", r.Value)
		switch i := slices.IndexFunc(state.Vectors, func(v initial.Vector) bool { return strings.HasSuffix(name, fmt.Sprint("MM", v.Reg)) }); {
		case i >= 0:
			v := state.Vectors[i]
			if v.Bits > bitsOf(name) { // set wider than the block uses it
				name = strings.ToUpper(v.Name())
			}
			value = fmt.Sprintf("%0*s", bitsOf(name)/4, strings.TrimPrefix(v.Value(), "0x"))
		case name == "FS" || name == "GS":
			name += "_BASE"
		case name == "EFLAGS" || name == "MXCSR":
			value = value[8:]
		}
		note("DEFREG", name, value)
	}
	if len(a.Pages) > 0 {
		note("MEM-DEF", "MEM", a.Size, fmt.Sprintf("%016x", a.Fill))
	}
	for _, p := range a.Pages {
		note("MEM-MAP", "MEM", p&^(a.Size-1))
	}
	if a.LoopRegister != "" {
		note("LOOP-REGISTER", a.LoopRegister)
	}
	b.out = append(b.out, ".intel_syntax noprefix\n"...)
	b.listing(insts)
	return nil
}

// bitsOf is how wide a vector register of that name is.
func bitsOf(name string) int { return map[byte]int{'X': 128, 'Y': 256, 'Z': 512}[name[0]] }
