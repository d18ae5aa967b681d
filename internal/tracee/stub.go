package tracee

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// stub is the code of the child's one private page, with its addresses.
type stub struct {
	code         []byte
	inject       uint64 // syscall; int3: for set-up, later closed by the filter
	run          uint64 // works through the list
	measure      uint64 // the same, after a dry run
	counted      uint64 // the same, after a dry run that counted in memory
	dryRun       uint64 // works through a dry run's list
	resume       uint64 // return address of an image or the sampler
	gate         uint64 // address after the list's syscall instruction, which the filter permits
	done         uint64 // address after the int3 at the end of the list
	failed       uint64 // address after the int3 for a failed system call
	failedDryRun uint64 // the same for a dry run's list
	stuck        uint64 // the same for the change of sides
}

// elfHeaders is the length of an ELF header and one program header (elf(5)).
const elfHeaders = 64 + 56

// buildStub assembles the stub after its ELF headers, for that many counters and this window.
func buildStub(counters int, window uint64) stub {
	var s stub
	e := stubEmitter{Emitter: asm.NewEmitter(layout.Stub + elfHeaders)}
	s.inject = e.PC()
	e.Syscall()
	e.Int3()

	e.Align(16)
	s.counted = e.PC()
	toStuck := e.protect(closeCounter(window))
	s.measure = e.PC()
	toStuck = append(toStuck, e.protect(toMeasure(counters, window))...)
	s.run = e.PC()
	e.Load(asm.RBX, layout.SlotOps)
	e.CmpMem(asm.RBX, layout.SlotOpsEnd)
	toDone := e.ForwardJz()
	toRun := e.loadStep()
	e.moreArgs()
	toFailed := e.call()

	s.resume = e.PC()
	e.Load(asm.RBX, layout.SlotOps)
	e.AddImm8(asm.RBX, layout.OpSize)
	e.Store(layout.SlotOps, asm.RBX)
	e.Jmp(s.run)

	s.notCalls(e, toRun)

	// A dry run's list: only read, and it ends with a run that does not return.
	e.Align(16)
	s.dryRun = e.PC()
	toStuck = append(toStuck, e.protect(toDryRun(counters, window))...)
	e.Lea(asm.RBX, layout.DryRunList)
	next := e.PC()
	toDryRunStep := e.loadStep()
	e.moreArgs()
	toFailedDryRun := e.call()
	e.AddImm8(asm.RBX, layout.OpSize)
	e.Jmp(next)
	e.Bind(toDryRunStep)
	e.JmpReg(asm.RDI)

	// The only system call: number and arguments are in their registers, and it returns to r12.
	e.Align(16)
	for _, f := range e.toGate {
		e.Bind(f)
	}
	e.Syscall()
	s.gate = e.PC()
	e.JmpReg(asm.R12)

	e.Bind(toFailedDryRun)
	e.Int3()
	s.failedDryRun = e.PC()
	e.Nop(1) // keeps a single step to the next int3 from looking like this int3
	for _, f := range toStuck {
		e.Bind(f)
	}
	e.Int3()
	s.stuck = e.PC()
	e.Nop(1)
	e.Bind(toFailed)
	e.Int3()
	s.failed = e.PC()
	e.Nop(1)

	e.Bind(toDone)
	e.Int3()
	s.done = e.PC()
	s.code = e.Bytes()
	return s
}

// notCalls emits the steps that are not system calls.
func (s *stub) notCalls(e stubEmitter, begin asm.Forward) {
	// -1 is opRun, -2 opMove, else opPut: each add tests one.
	e.Bind(begin)
	e.AddImm8(asm.RAX, 1)
	toImage := e.ForwardJz()
	e.AddImm8(asm.RAX, 1)
	toMove := e.ForwardJz()
	e.StoreAt(asm.RDI, 0, asm.RSI)
	e.Jmp(s.resume)

	e.Bind(toMove)
	e.LoadAt(asm.RAX, asm.RSI, 0)
	e.StoreAt(asm.RDI, 0, asm.RAX)
	e.Jmp(s.resume)

	// Run: entry is in rdi, the count in rsi, or in SlotCount if that is 0.
	e.Bind(toImage)
	e.AddImm8(asm.RSI, 0)
	counted := e.ForwardJz()
	e.Store(layout.SlotCount, asm.RSI)
	e.Bind(counted)
	e.Lea(asm.RAX, s.resume)
	e.Store(layout.SlotReturn, asm.RAX)
	e.JmpReg(asm.RDI)
}

// stubEmitter emits system calls through one gate.
type stubEmitter struct {
	*asm.Emitter
	toGate []asm.Forward
}

// loadStep loads the step at rbx with two arguments, and returns the jump taken if it is not a system call.
func (e *stubEmitter) loadStep() (ours asm.Forward) {
	e.LoadAt(asm.RAX, asm.RBX, 0)
	e.LoadAt(asm.RDI, asm.RBX, 8)
	e.LoadAt(asm.RSI, asm.RBX, 16)
	e.AddImm8(asm.RAX, 0)
	return e.ForwardJs()
}

func (e *stubEmitter) moreArgs() {
	e.LoadAt(asm.RDX, asm.RBX, 24)
	e.LoadAt(asm.R10, asm.RBX, 32)
	e.LoadAt(asm.R8, asm.RBX, 40)
	e.LoadAt(asm.R9, asm.RBX, 48)
}

// call makes the call and returns the jump taken if it fails. It clobbers rcx, r11 and r12.
func (e *stubEmitter) call() (failed asm.Forward) {
	back := e.ForwardLea(asm.R12)
	e.toGate = append(e.toGate, e.ForwardJmp())
	e.Bind(back)
	e.AddImm8(asm.RAX, 0)
	return e.ForwardJs()
}

// protect changes protections with constants in the code: between the sides no memory can hold a list.
func (e *stubEmitter) protect(ops []Op) (failed []asm.Forward) {
	for _, op := range ops {
		e.MovImm(asm.RAX, op.number)
		e.MovImm(asm.RDI, op.args[0])
		e.MovImm(asm.RSI, op.args[1])
		e.MovImm(asm.RDX, op.args[2])
		failed = append(failed, e.call())
	}
	return failed
}

// elf returns a static executable whose one read-execute segment holds the headers and the stub.
func (s stub) elf() []byte {
	size := uint64(elfHeaders + len(s.code))
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Entry: s.inject, Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: layout.Stub, Paddr: layout.Stub,
		Filesz: size, Memsz: size, Align: layout.PageSize}
	var b bytes.Buffer
	for _, v := range []any{header, segment, s.code} {
		binary.Write(&b, binary.LittleEndian, v) // cannot fail for fixed-size values
	}
	return b.Bytes()
}
