package debuggee

import (
	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
)

// Registers reads all that addresses are computed from; RIP is that of the instruction to come.
func (p *Process) Registers(id int) (asm.Regs, error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(id, &r); err != nil {
		return asm.Regs{}, fault(err, "reading registers")
	}
	return asm.Regs{
		GPR: [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15},
		RIP: r.Rip, FSBase: r.Fs_base, GSBase: r.Gs_base,
	}, nil
}

// Code reads as many bytes from addr on as there are, up to the length of b, without breakpoints.
func (p *Process) Code(addr uint64, b []byte) int {
	n, _ := unix.PtracePeekText(p.anyThread(), uintptr(addr), b)
	for at, original := range p.breaks {
		if addr <= at && at < addr+uint64(n) {
			b[at-addr] = original
		}
	}
	return n
}
