package extract

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"slices"
	"sort"
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
			o.functions = append(o.functions, divide(s, claims, o)...)
		}
	}
}

// isLinkage reports whether a section holds the linker's own jumps (PLT).
func isLinkage(section string) bool {
	return section == ".plt" || strings.HasPrefix(section, ".plt.") || section == ".iplt"
}

func (o *object) symbolClaims() []claim {
	var claims []claim
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

func (o *object) frameClaims() []claim {
	var claims []claim
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
	for _, s := range o.elf.Sections {
		if s.Name != ".gopclntab" && s.Name != ".data.rel.ro.gopclntab" {
			continue
		}
		text := o.elf.Section(".text")
		data, err := s.Data()
		if err != nil || text == nil {
			o.stats.BadFrames++
			continue
		}
		defer func() {
			if recover() != nil { // debug/gosym trusts the table's offsets
				o.stats.BadFrames++
			}
		}()
		table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
		if err != nil {
			o.stats.BadFrames++
			continue
		}
		for _, f := range table.Funcs {
			if f.Entry < f.End {
				claims = append(claims, claim{span{f.Entry, f.End}, f.Name, rankLocal})
			}
		}
	}
	return claims
}

// divide makes functions of a section's claims. Where claims overlap, a byte belongs to the one that starts last.
func divide(s *section, claims []claim, o *object) []function {
	var in []claim
	typed := false
	for _, c := range claims {
		if c.lo >= s.addr && c.lo < s.end() {
			c.hi = min(c.hi, s.end())
			in = append(in, c)
			typed = typed || c.rank != rankLabel
		}
	}
	if typed { // the file types its functions, so an untyped label may be data
		in = slices.DeleteFunc(in, func(c claim) bool { return c.rank == rankLabel })
	} else { // assembly, or linker-made code
		whole := s.Name != ".init" && s.Name != ".fini" && len(in) == 0
		if len(in) == 0 || in[0].lo > s.addr {
			in = append(in, claim{span: span{s.addr, s.addr}, rank: rankFrame})
		}
		if whole {
			o.stats.Whole++
		}
	}
	slices.SortStableFunc(in, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.rank, a.rank))
	})
	in = joinSame(in)
	var list []function
	reach := s.addr // end of the claims so far
	for i, c := range in {
		next := s.end()
		if i+1 < len(in) {
			next = in[i+1].lo
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

// joinSame merges claims that start at one address: the first name and the largest size.
func joinSame(in []claim) []claim {
	out := in[:1]
	for _, c := range in[1:] {
		last := &out[len(out)-1]
		if c.lo != last.lo {
			out = append(out, c)
			continue
		}
		last.hi = max(last.hi, c.hi)
		if last.symbol == "" {
			last.symbol = c.symbol
		}
	}
	return out
}

func (o *object) functionAt(addr uint64) *function {
	i := sort.Search(len(o.functions), func(i int) bool { return o.functions[i].hi > addr })
	if i < len(o.functions) && o.functions[i].lo <= addr {
		return &o.functions[i]
	}
	return nil
}

func (f *function) bytes() []byte {
	data := f.where.data()
	lo, hi := f.lo-f.where.addr, f.hi-f.where.addr
	n := uint64(len(data))
	return data[min(lo, n):min(hi, n)]
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
