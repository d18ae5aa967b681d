package debuggee

import (
	"cmp"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Regs reads the registers from which addresses are computed; RIP is the next instruction's.
func (p *Process) Regs(id int) (asm.Regs, error) {
	t := p.tasks[id]
	if t != nil && t.at != nil {
		return *t.at, nil
	}
	r, err := registers(id)
	regs := general(r)
	if t != nil && err == nil {
		t.at, t.interrupted = &regs, interrupted(r)
	}
	return regs, err
}

func general(r unix.PtraceRegs) asm.Regs {
	return asm.Regs{
		GPR: [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15},
		RIP: r.Rip, FSBase: r.Fs_base, GSBase: r.Gs_base,
	}
}

// interrupted reports whether the registers are those after a system call that the kernel will make again, unless a signal's handler comes first.
func interrupted(r unix.PtraceRegs) bool {
	const first, last = 512, 516 // ERESTARTSYS, ERESTART_RESTARTBLOCK, linux/errno.h
	return int64(r.Orig_rax) >= 0 && -r.Rax >= first && -r.Rax <= last
}

func registers(id int) (r unix.PtraceRegs, err error) {
	if err := unix.PtraceGetRegs(id, &r); err != nil {
		return r, fault(err, "reading registers")
	}
	return r, nil
}

func setRegisters(id int, r unix.PtraceRegs) error {
	if err := unix.PtraceSetRegs(id, &r); err != nil {
		return fault(err, "writing registers")
	}
	return nil
}

func (p *Process) State(id int) (s State, err error) {
	r, err := registers(id)
	if err != nil {
		return s, err
	}
	s.Regs, s.Flags = general(r), r.Eflags
	const (
		xstate  = 0x202    // NT_X86_XSTATE, linux/elf.h
		largest = 16 << 10 // AMX's tiles end at 11,008 bytes (Intel SDM vol. 1, 13.5.2 and 13.5.13)
	)
	s.XSave = make([]byte, largest)
	area := unix.Iovec{Base: &s.XSave[0]}
	area.SetLen(largest)
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(id), xstate, uintptr(unsafe.Pointer(&area)), 0, 0); e != 0 {
		if e == unix.EINVAL || e == unix.ENODEV {
			return s, &verdict.HostError{Missing: "the kernel does not tell a program's vector registers (PTRACE_GETREGSET of NT_X86_XSTATE)",
				Remedy: "use a CPU and a kernel with XSAVE", Err: e}
		}
		return s, fault(e, "reading vector registers")
	}
	s.XSave = s.XSave[:area.Len]
	return s, nil
}

func (p *Process) Page(addr uint64, into *[4096]byte) error {
	local := unix.Iovec{Base: &into[0]}
	local.SetLen(len(into))
	n, err := unix.ProcessVMReadv(p.anyThread(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(into)}}, 0)
	if err != nil || n < len(into) {
		return fault(cmp.Or(err, error(unix.EFAULT)), "reading memory at %#x", addr)
	}
	p.withoutBreaks(addr, into[:])
	return nil
}

func (p *Process) withoutBreaks(addr uint64, b []byte) {
	for at, original := range p.breaks {
		if addr <= at && at < addr+uint64(len(b)) {
			b[at-addr] = original
		}
	}
}

// Code reads up to len(b) bytes at addr, without breakpoints, and returns how many there are.
func (p *Process) Code(addr uint64, b []byte) int {
	n, _ := unix.PtracePeekText(p.anyThread(), uintptr(addr), b)
	p.withoutBreaks(addr, b[:n])
	return n
}
