package instructions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// IBench is the rows' latencies and throughputs as osaca --import ibench reads them (osaca/db_interface.py): operands in the order of
// AT&T syntax, where r is any general register. Of forms that are one to OSACA the widest is written. Forms with other kinds of
// operands, such as opmasks, or without any are left out.
func IBench(rows []Row) string {
	var names []string
	widest := map[string]*Row{}
	for i := range rows {
		name := ibenchName(rows[i].Form)
		if name == "" {
			continue
		}
		if widest[name] == nil {
			names = append(names, name)
		}
		if widest[name] == nil || generalWidth(rows[i].Form) > generalWidth(widest[name].Form) {
			widest[name] = &rows[i]
		}
	}
	var b strings.Builder
	for _, name := range names {
		r := widest[name]
		latency := cmp.Or(r.Load, r.Latency) // from memory, OSACA's includes the load
		if o := r.Form.Operands()[0]; o.Class == asm.MemoryOperand && o.Write {
			latency = nil
		}
		for _, n := range []struct {
			what string
			*Measurement
		}{{"TP", r.Throughput}, {"LT", latency}} {
			if n.Measurement != nil && n.Mean == "" {
				fmt.Fprintf(&b, "%s-%s: %.3f (clock cycles)\n", name, n.what, n.Value.Cycles)
			}
		}
	}
	return b.String()
}

func ibenchName(f *asm.Form) string {
	if f == nil || f.Decorated() {
		return ""
	}
	var operands []string
	for _, o := range f.Operands() {
		kind := ""
		switch {
		case o.Fixed >= 0 || o.Implicit || o.Index > 0:
			return ""
		case o.Class == asm.GPROperand:
			kind = "r"
		case o.Class == asm.VectorOperand:
			kind = map[int]string{16: "x", 32: "y", 64: "z"}[o.Width]
		case o.Class == asm.ImmediateOperand:
			kind = "i"
		case o.Class == asm.MemoryOperand:
			kind = "mb"
		}
		if kind == "" {
			return ""
		}
		operands = append(operands, kind)
	}
	if len(operands) == 0 {
		return ""
	}
	slices.Reverse(operands)
	return f.Mnemonic() + "-" + strings.Join(operands, "_")
}

func generalWidth(f *asm.Form) int {
	for _, o := range f.Operands() {
		if o.Class == asm.GPROperand {
			return o.Width
		}
	}
	return 0
}
