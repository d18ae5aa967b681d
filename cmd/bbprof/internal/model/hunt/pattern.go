package hunt

import (
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

type block struct {
	hex    string
	set    string // initial registers, see Case
	insts  []asm.Inst
	shapes []string
	edges  [][]edge // from, to
	reach  [][]bool // from, to: along a path of edges
}

// edge says how an instruction depends on another, or on itself an iteration before: through a register or flags,
// through memory, or both. Instructions in between do not matter, so removing them changes no edge.
type edge uint8

const (
	byRegister edge = 1 << iota
	byMemory
)

// newBlock decodes a block. It returns nil if the bytes are not instructions.
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

// close computes the transitive dependencies (Warshall).
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

// handsOn reports whether an instruction reads what another wrote, judging by how their addresses are spelled.
func (b *block) handsOn(from, to int) bool {
	place := func(i int, m *asm.Mem) asm.Mem {
		at := asm.Mem{Base: m.Base, Index: m.Index, Scale: m.Scale, Disp: m.Disp, Segment: m.Segment}
		if m.Base == asm.RIP {
			at.Disp = int64(b.insts[i].RIPOperand(uint64(b.insts[i].Offset)))
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

// shapeOf returns an instruction's shape, with two things that change how cores execute it: a repeated register, and the
// number of parts in the address of a lea.
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

// leaParts returns the parts of an address: b for the base, i for the index, s for a scaled index, d for a displacement.
// Some combinations make lea slower.
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

// only keeps some instructions. It returns nil if removing the others would change more.
func (b *block) only(kept []int) *block {
	pieces := make([]piece, len(kept))
	for n, i := range kept {
		pieces[n].of = i
	}
	return b.rebuild(pieces)
}

func (b *block) asCase() Case { return Case{b.hex, b.set} }

func (b *block) text() string { return asm.Text(b.insts) }

// contains reports whether some instructions of b, in any order, have the shapes of the pattern p and depend on each
// other as there, directly or through other instructions: a wrong latency shows in any chain that it is part of.
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

// dependsAs reports whether instruction i depends on itself and on those chosen before as the next instruction of the
// pattern does. Whether an instruction waits for itself must match: one case shows latency, the other throughput.
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
