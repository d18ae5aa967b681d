package tracee

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/space"
)

// stub is the code of the child's one private page and the places in it.
type stub struct {
	code   []byte
	inject uint64 // syscall; int3: for set-up, shut by the filter afterwards
	run    uint64 // works through the list
	resume uint64 // where an image or the sampler returns
	gate   uint64 // address after the list's syscall instruction, the one that the filter lets pass
	done   uint64 // address after the int3 at the end of the list
	failed uint64 // address after the int3 for a failed system call
}

// elfHeaders is the length of an ELF header and one program header (elf(5)).
const elfHeaders = 64 + 56

// buildStub assembles the stub behind its ELF headers.
func buildStub() stub {
	var s stub
	e := asm.NewEmitter(space.Stub + elfHeaders)
	s.inject = e.PC()
	e.Syscall()
	e.Int3()

	e.Align(16)
	s.run = e.PC()
	e.Load(asm.RBX, space.SlotOps)
	e.CmpMem(asm.RBX, space.SlotOpsEnd)
	toDone := e.ForwardJz()
	e.LoadAt(asm.RAX, asm.RBX, 0)
	e.LoadAt(asm.RDI, asm.RBX, 8)
	e.LoadAt(asm.RSI, asm.RBX, 16)
	e.AddImm8(asm.RAX, 0)
	toRun := e.ForwardJs()
	e.LoadAt(asm.RDX, asm.RBX, 24)
	e.LoadAt(asm.R10, asm.RBX, 32)
	e.LoadAt(asm.R8, asm.RBX, 40)
	e.LoadAt(asm.R9, asm.RBX, 48)
	e.Syscall()
	s.gate = e.PC()
	e.StoreAt(asm.RBX, 56, asm.RAX)
	e.AddImm8(asm.RAX, 0)
	toFailed := e.ForwardJs()

	s.resume = e.PC()
	e.Load(asm.RBX, space.SlotOps)
	e.AddImm8(asm.RBX, space.OpSize)
	e.Store(space.SlotOps, asm.RBX)
	e.Jmp(s.run)

	// Not a system call: by opRun, opMove, opPut.
	e.Land(toRun)
	e.AddImm8(asm.RAX, 1)
	toImage := e.ForwardJz()
	e.AddImm8(asm.RAX, 1)
	toMove := e.ForwardJz()
	e.StoreAt(asm.RDI, 0, asm.RSI)
	e.Jmp(s.resume)

	e.Land(toMove)
	e.LoadAt(asm.RAX, asm.RSI, 0)
	e.StoreAt(asm.RDI, 0, asm.RAX)
	e.Jmp(s.resume)

	// A run: entry in rdi, how often in rsi.
	e.Land(toImage)
	e.Store(space.SlotCount, asm.RSI)
	e.Lea(asm.RAX, s.resume)
	e.Store(space.SlotReturn, asm.RAX)
	e.JmpReg(asm.RDI)

	e.Land(toFailed)
	e.Int3()
	s.failed = e.PC()
	e.Nop(1) // so that a single step to toDone does not stand where that int3 ends

	e.Land(toDone)
	e.Int3()
	s.done = e.PC()
	s.code = e.Bytes()
	return s
}

// elf is a static executable whose one segment, read-execute, is the headers and the stub.
func (s stub) elf() []byte {
	le := binary.LittleEndian
	size := uint64(elfHeaders + len(s.code))
	b := make([]byte, 0, size)
	// Elf64_Ehdr
	b = append(b, 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint16(b, 2)  // e_type ET_EXEC
	b = le.AppendUint16(b, 62) // e_machine EM_X86_64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, s.inject) // e_entry
	b = le.AppendUint64(b, 64)       // e_phoff
	b = le.AppendUint64(b, 0)        // e_shoff
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, 64) // e_ehsize
	b = le.AppendUint16(b, 56) // e_phentsize
	b = le.AppendUint16(b, 1)  // e_phnum
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	// Elf64_Phdr
	b = le.AppendUint32(b, 1) // PT_LOAD
	b = le.AppendUint32(b, 5) // PF_R | PF_X
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, space.Stub)
	b = le.AppendUint64(b, space.Stub)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, space.PageSize)
	return append(b, s.code...)
}
