package debuggee

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ShiftImage moves a position-independent program's code and static data, mapped from low to high, down by whole pages
// of at least that size before the first instruction. Heap, stack and libraries stay. Only two entries of the auxiliary
// vector refer to the old address, and they tell the dynamic linker the new one.
func (p *Process) ShiftImage(low, high uint64, bytes int) error {
	if bytes == 0 {
		return nil
	}
	start, err := registers(p.pid)
	if err != nil {
		return err
	}
	maps, err := p.Maps()
	if err != nil {
		return err
	}
	for _, m := range maps {
		if m.Low < low || high <= m.Low {
			continue
		}
		const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
		to := m.Low - uint64(bytes)
		got, err := p.ask(p.tasks[p.pid], unix.SYS_MREMAP, m.Low, m.High-m.Low, m.High-m.Low, flags, to)
		if err != nil {
			return err
		}
		if got != to {
			return &Fault{fmt.Sprintf("moving its code down by %d bytes", bytes), unix.Errno(-got)}
		}
	}
	p.imageShift = uint64(bytes)
	return p.shiftAuxiliary(start.Rsp, uint64(bytes))
}

// shiftAuxiliary lowers the auxiliary vector's addresses that lie in the program.
func (p *Process) shiftAuxiliary(rsp, by uint64) error {
	block, err := p.startBlock(rsp)
	if err != nil {
		return err
	}
	for at := len(block) - 16; at >= 0; at -= 16 { // from its end, since what precedes it is not part of the vector
		switch binary.LittleEndian.Uint64(block[at:]) {
		case 3, 9: // AT_PHDR, AT_ENTRY, linux/auxvec.h
			value := binary.LittleEndian.Uint64(block[at+8:])
			binary.LittleEndian.PutUint64(block[at+8:], value-by)
		case 16: // AT_HWCAP, which the kernel writes before these (create_elf_tables, fs/binfmt_elf.c)
			return poke(p.pid, rsp, block...)
		}
	}
	return &Fault{"moving its code", errors.New("its auxiliary vector is not as the kernel writes it")}
}

// Divert makes a thread at the first instruction of a function call another one with two arguments.
func (p *Process) Divert(id int, function, first, second uint64) error {
	regs, err := registers(id)
	if err != nil {
		return err
	}
	regs.Rip, regs.Rdi, regs.Rsi = function, first, second // System V ABI for AMD64, 3.2.3
	if err := setRegisters(id, regs); err != nil {
		return err
	}
	if t := p.tasks[id]; t != nil {
		t.at = nil
	}
	return nil
}
