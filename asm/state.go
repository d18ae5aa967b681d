package asm

// State is the state besides memory that a block uses and changes: a rerun has to restore it, and it needs a known
// value before the first run.
type State struct {
	X87          bool // an x87 instruction
	MMX          bool // an MMX register, which is an x87 register
	Vector       bool // an xmm, ymm or zmm register
	VEX          bool // a vector instruction encoded with VEX or EVEX, which writes whole registers
	EVEX         bool // an EVEX encoding
	VectorBits   int  // width of the widest vector operation, 0 if none is wider than 128
	HighVector   bool // a vector register 16 to 31, which vzeroall leaves alone
	Opmask       bool // an opmask register, read or written
	CacheControl bool // non-temporal stores, flushes and prefetches: what L1 holds does not follow from the accesses
	MXCSRLoaded  bool // ldmxcsr, fxrstor
	MXCSRSticky  bool // an SSE operation that may set exception flags in MXCSR
	Direction    bool // std or cld
	FlagsLoaded  bool // popf, which may set AC, DF, NT and TF
	GPRRead      uint16
	GPRWritten   uint16 // bit n is the general register with hardware number n; rsp by push and pop
}

// StateOf gathers the facts about state of all instructions of a block.
func StateOf(insts []Inst) State {
	var s State
	for i := range insts {
		s.add(&insts[i].raw)
	}
	return s
}

func (s *State) add(d *rawInst) {
	f := d.form
	s.X87 = s.X87 || f.isX87
	s.MMX = s.MMX || f.isMMX
	s.Vector = s.Vector || f.isVec
	s.VEX = s.VEX || f.isVec && d.enc != encLegacy
	s.EVEX = s.EVEX || d.enc == encEVEX
	if bits := d.vectorBits(); f.isVec && d.enc != encLegacy && bits > 128 {
		s.VectorBits = max(s.VectorBits, bits)
	}
	s.CacheControl = s.CacheControl || f.cacheControl
	s.MXCSRSticky = s.MXCSRSticky || f.fp
	switch f.name {
	case "ldmxcsr", "vldmxcsr", "fxrstor", "fxrstor64", "xrstor", "xrstor64":
		s.MXCSRLoaded = true
	case "std", "cld":
		s.Direction = true
	case "popf":
		s.FlagsLoaded = true
	}
	reads, writes := d.registers()
	all := reads.Or(writes)
	s.HighVector = s.HighVector || all.Vector>>16 != 0
	s.Opmask = s.Opmask || all.Opmask != 0
	s.GPRRead |= reads.GPR
	s.GPRWritten |= writes.GPR
}

// highByte is the number of the register that an operand is part of.
func (d *rawInst) highByte(o operand) int {
	n := d.number(o.kind)
	if d.isHighByte(n, int(o.size)) {
		return n - 4
	}
	return n
}

// isHighByte: without REX, byte registers 4 to 7 are the second bytes of registers 0 to 3.
func (d *rawInst) isHighByte(n, width int) bool {
	return width == 1 && !d.rex && d.enc == encLegacy && n >= 4 && n < 8
}

// vectorBits is the vector length; with a rounding mode in its place it is always 512.
func (d *rawInst) vectorBits() int {
	if d.enc == encEVEX && d.evexB && !d.hasMem {
		return 512
	}
	return 128 << d.vl
}
