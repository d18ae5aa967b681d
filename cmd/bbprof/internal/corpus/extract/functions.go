package extract

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A function is a code range entered at its first byte. Functions of an object do not overlap.
type function struct {
	span
	symbol string // "" if unnamed
	where  *section
}

// A claim is a function according to one source. Without an end it extends to the next claim.
type claim struct {
	span
	symbol string
	rank   rank
}

// A rank orders claims by kind. Of several claims that begin at one address, the highest names the function.
type rank int

const (
	rankData   rank = iota // data between code
	rankFrame              // a frame description, without a name
	rankLabel              // an assembly label, of code or data
	rankLocal              // a function's name
	rankGlobal             // a global function's name
)

// findFunctions collects functions from symbols, frame descriptions and Go's table. None is complete: assembly
// often lacks frames, stripped files lack symbols.
func (o *object) findFunctions() {
	claims := o.symbolClaims()
	claims = append(claims, o.frameClaims()...)
	claims = append(claims, o.goClaims()...)
	for _, s := range o.sections {
		if s.executable && !isLinkage(s.Name) {
			o.functions = append(o.functions, divide(s, claims)...)
		}
	}
}

// isLinkage reports whether a section holds the linker's own jumps (PLT).
func isLinkage(section string) bool {
	return section == ".plt" || strings.HasPrefix(section, ".plt.") || section == ".iplt"
}

func (o *object) symbolClaims() (claims []claim) {
	symbols, _ := o.elf.Symbols()
	dynamic, _ := o.elf.DynamicSymbols()
	inFile := map[int]*section{}
	for _, s := range o.sections {
		inFile[s.index] = s
	}
	for _, sym := range append(symbols, dynamic...) {
		s := inFile[int(sym.Section)]
		if s == nil || !s.executable {
			continue
		}
		local := elf.ST_BIND(sym.Info) == elf.STB_LOCAL
		rank := rankGlobal
		switch elf.ST_TYPE(sym.Info) {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
			if local {
				rank = rankLocal
			}
		case elf.STT_OBJECT:
			rank = rankData
		case elf.STT_NOTYPE:
			if sym.Name == "" || strings.HasPrefix(sym.Name, ".L") || local && !o.relocatable {
				continue
			}
			rank, sym.Size = rankLabel, 0
		default:
			continue
		}
		lo := sym.Value
		if o.relocatable {
			lo += s.addr
		}
		if lo+sym.Size < lo {
			sym.Size = 0
		}
		name, _, _ := strings.Cut(sym.Name, "@")
		claims = append(claims, claim{span{lo, lo + sym.Size}, name, rank})
	}
	return claims
}

func (o *object) frameClaims() (claims []claim) {
	for _, s := range o.sections {
		if s.Name != ".eh_frame" {
			continue
		}
		spans, whole := frameSpans(s.data(), s.addr)
		if !whole {
			o.stats.BadFrames++
		}
		for _, f := range spans {
			claims = append(claims, claim{span: f, rank: rankFrame})
		}
	}
	return claims
}

// goClaims reads Go's function table, which even stripped programs keep for the runtime.
func (o *object) goClaims() (claims []claim) {
	lines, text := cmp.Or(o.elf.Section(".gopclntab"), o.elf.Section(".data.rel.ro.gopclntab")), o.elf.Section(".text")
	if lines == nil || text == nil {
		return nil
	}
	o.isGo = true
	defer func() {
		if recover() != nil { // debug/gosym trusts the table's offsets
			o.stats.BadFrames++
		}
	}()
	data, _ := lines.Data()
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		o.stats.BadFrames++
		return nil
	}
	for _, f := range table.Funcs {
		if f.Entry < f.End {
			claims = append(claims, claim{span{f.Entry, f.End}, f.Name, rankLocal})
		}
	}
	return claims
}

// divide makes functions of a section's claims. Where claims overlap, a byte belongs to the one that starts last.
func divide(s *section, claims []claim) (list []function) {
	var in []claim
	for _, c := range claims {
		if c.lo >= s.addr && c.lo < s.end() {
			c.hi = min(c.hi, s.end())
			in = append(in, c)
		}
	}
	label := func(c claim) bool { return c.rank == rankLabel }
	if typed := slices.DeleteFunc(slices.Clone(in), label); len(typed) > 0 {
		in = typed // the file types its functions, so an untyped label may be data
	} else { // assembly, or linker-made code
		in = append(in, claim{span: span{s.addr, s.addr}, rank: rankFrame})
	}
	slices.SortStableFunc(in, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.rank, a.rank))
	})
	reach := s.addr // end of the claims so far
	for i := 0; i < len(in); {
		c, next := in[i], s.end()
		for ; i < len(in); i++ { // of those that start together, the first name and the largest size
			if in[i].lo != c.lo {
				next = in[i].lo
				break
			}
			c.hi, c.symbol = max(c.hi, in[i].hi), cmp.Or(c.symbol, in[i].symbol)
		}
		reach = max(reach, c.hi)
		hi := min(reach, next)
		if c.hi == c.lo && reach <= c.lo { // of unknown size
			hi = next
		}
		if c.rank != rankData {
			list = append(list, function{span: span{c.lo, hi}, symbol: c.symbol, where: s})
		}
	}
	return list
}

// name is the function's in source, or its address if the file is stripped.
func (f *function) name() string {
	return cmp.Or(printable(demangled(f.symbol)), fmt.Sprintf("%#x", f.lo-f.where.base))
}

// IsAddress reports whether a Block's Function is the address of one that has no name.
func IsAddress(function string) bool {
	digits, ok := strings.CutPrefix(function, "0x")
	_, err := strconv.ParseUint(digits, 16, 64)
	return ok && err == nil
}

func (f *function) bytes() []byte {
	data := f.where.data()
	lo, hi := f.lo-f.where.addr, f.hi-f.where.addr
	n := uint64(len(data))
	return data[min(lo, n):min(hi, n)]
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
