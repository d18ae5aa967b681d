package hunt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

type block struct {
	hex    string
	set    string // what registers start with, see Case
	insts  []asm.Inst
	shapes []string
	edges  [][]edge // from, to
	reach  [][]bool // from, to: by edges, one after another
}

// edge is how one instruction depends on another, or on itself an iteration before: through a register or
// flags, through memory, or both. What comes in between does not matter, so that to take out other
// instructions changes no edge.
type edge uint8

const (
	byRegister edge = 1 << iota
	byMemory
)

// newBlock is a block, nil if its bytes are no instructions.
func newBlock(text string) *block {
	insts, err := asm.DecodeHex(text)
	if err != nil || len(insts) == 0 {
		return nil
	}
	b := &block{hex: text, insts: insts, shapes: make([]string, len(insts)), edges: make([][]edge, len(insts))}
	reads, writes := make([]asm.Values, len(insts)), make([]asm.Values, len(insts))
	for i := range insts {
		b.shapes[i] = shapeOf(&insts[i])
		reads[i], writes[i] = insts[i].Dataflow()
	}
	for i := range insts {
		b.edges[i] = make([]edge, len(insts))
		for k := range insts {
			if writes[i].And(reads[k]) != (asm.Values{}) {
				b.edges[i][k] |= byRegister
			}
			if b.handsOn(i, k) {
				b.edges[i][k] |= byMemory
			}
		}
	}
	b.close()
	return b
}

// close finds what depends on what through others (Warshall).
func (b *block) close() {
	b.reach = make([][]bool, len(b.edges))
	for i := range b.edges {
		b.reach[i] = make([]bool, len(b.edges))
		for k, e := range b.edges[i] {
			b.reach[i][k] = e != 0
		}
	}
	for via := range b.reach {
		for i := range b.reach {
			if !b.reach[i][via] {
				continue
			}
			for k, reached := range b.reach[via] {
				b.reach[i][k] = b.reach[i][k] || reached
			}
		}
	}
}

// handsOn reports whether an instruction reads what another wrote, as far as their addresses are spelled
// alike.
func (b *block) handsOn(from, to int) bool {
	place := func(i int, m *asm.Mem) asm.Mem {
		at := asm.Mem{Base: m.Base, Index: m.Index, Scale: m.Scale, Disp: m.Disp, Segment: m.Segment}
		if m.Base == asm.RIP {
			at.Disp = b.relative(i)
		}
		return at
	}
	for _, w := range b.insts[from].Mem {
		for _, r := range b.insts[to].Mem {
			if w.Write && r.Read && place(from, &w) == place(to, &r) {
				return true
			}
		}
	}
	return false
}

// shapeOf is an instruction's shape, with what else decides how cores execute it: one register twice, and
// how many parts the address of a lea has.
func shapeOf(in *asm.Inst) string {
	shape := in.Shape()
	text := in.Text()
	if score.SameRegisters(text) {
		shape += ", same"
	}
	if in.Mnemonic == "lea" {
		_, address, _ := strings.Cut(text, "[")
		shape = strings.TrimSuffix(shape, "m") + leaParts(strings.TrimSuffix(address, "]"))
	}
	return shape
}

// leaParts is an address with b for the base, i for the index, s for a scaled one, and d for a
// displacement: lea takes longer for some.
func leaParts(address string) string {
	var parts []string
	for i, p := range strings.FieldsFunc(address, func(r rune) bool { return r == '+' || r == '-' }) {
		switch {
		case strings.Contains(p, "rip"):
			parts = append(parts, "rip")
		case strings.HasPrefix(p, "0x"):
			parts = append(parts, "d")
		case strings.Contains(p, "*"):
			parts = append(parts, "s")
		case i == 0:
			parts = append(parts, "b")
		default:
			parts = append(parts, "i")
		}
	}
	return "[" + strings.Join(parts, "+") + "]"
}

// only is the block that is left of some instructions, nil where taking out the others would change more.
func (b *block) only(kept []int) *block {
	pieces := make([]piece, len(kept))
	for n, i := range kept {
		pieces[n].of = i
	}
	return b.rebuild(pieces)
}

// asCase is the block as it is measured.
func (b *block) asCase() Case { return Case{b.hex, b.set} }

func (b *block) text() string { return asm.Text(b.insts) }

// contains reports whether some instructions of a block, in any order, have the shapes of a pattern's and
// depend on each other where those do, be it through other instructions: an error of a latency shows in
// whatever closes a chain.
func (b *block) contains(p *block) bool {
	if len(p.shapes) > len(b.shapes) {
		return false
	}
	chosen := make([]int, 0, len(p.shapes))
	var match func() bool
	match = func() bool {
		k := len(chosen)
		if k == len(p.shapes) {
			return true
		}
		for i, shape := range b.shapes {
			if shape != p.shapes[k] || slices.Contains(chosen, i) || !b.dependsAs(i, chosen, p) {
				continue
			}
			chosen = append(chosen, i)
			if match() {
				return true
			}
			chosen = chosen[:k]
		}
		return false
	}
	return match()
}

// dependsAs reports whether instruction i depends on itself and those chosen before where the next
// instruction of a pattern does. One that waits for itself is another case than one that does not: the one
// tells of latency, the other of throughput.
func (b *block) dependsAs(i int, chosen []int, p *block) bool {
	k := len(chosen)
	if p.reach[k][k] && !b.reach[i][i] || b.edges[i][i] != 0 && !p.reach[k][k] {
		return false
	}
	for n, c := range chosen {
		if p.reach[n][k] && !b.reach[c][i] || p.reach[k][n] && !b.reach[i][c] ||
			p.edges[n][k]&byMemory != b.edges[c][i]&byMemory || p.edges[k][n]&byMemory != b.edges[i][c]&byMemory {
			return false
		}
	}
	return true
}

// mostPermuted bounds the patterns whose instructions are put in all orders for their key.
const mostPermuted = 5

// key is the same for blocks that contain each other.
func (b *block) key() string {
	order := make([]int, len(b.shapes))
	for i := range order {
		order[i] = i
	}
	if len(order) > mostPermuted {
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.shapes[x], b.shapes[y]) })
		return b.spell(order)
	}
	least := ""
	permute(order, 0, func() {
		if s := b.spell(order); least == "" || s < least {
			least = s
		}
	})
	return least
}

func (b *block) spell(order []int) string {
	var s strings.Builder
	for _, i := range order {
		s.WriteString(b.shapes[i] + "; ")
	}
	for _, i := range order {
		for _, k := range order {
			fmt.Fprintf(&s, "%t%d ", b.reach[i][k], b.edges[i][k]&byMemory)
		}
	}
	return s.String()
}

func permute(list []int, from int, visit func()) {
	if from >= len(list) {
		visit()
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permute(list, from+1, visit)
		list[from], list[i] = list[i], list[from]
	}
}
