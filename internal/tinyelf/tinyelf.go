// Package tinyelf writes programs of a few instructions for tests: static ELF files whose every instruction is known,
// for which no compiler is needed.
package tinyelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Base is the address of the first byte of code, and of the entry.
const Base = 0x401000

type Symbol struct {
	Name   string
	Offset int
}

func Write(t testing.TB, code []byte, symbols ...Symbol) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny")
	if err := os.WriteFile(path, File(code, symbols...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// File is the ELF file: header, one segment, sections of symbols and strings (System V ABI, chapters 4 and 5).
func File(code []byte, symbols ...Symbol) []byte {
	const (
		ehsize, phsize, shsize = 64, 56, 64
		codeAt                 = 0x1000
	)
	strings := []byte("\x00.text\x00.symtab\x00.strtab\x00")
	table := make([]byte, 24) // the first symbol is the null symbol
	for _, s := range symbols {
		var b bytes.Buffer
		binary.Write(&b, binary.LittleEndian, elf.Sym64{
			Name: uint32(len(strings)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1, Value: Base + uint64(s.Offset),
		})
		table = append(table, b.Bytes()...)
		strings = append(append(strings, s.Name...), 0)
	}
	symAt := uint64(codeAt + len(code))
	strAt := symAt + uint64(len(table))
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: Base, Phoff: ehsize,
		Shoff: strAt + uint64(len(strings)), Ehsize: ehsize, Phentsize: phsize, Phnum: 1, Shentsize: shsize, Shnum: 4, Shstrndx: 3,
	}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	if len(symbols) == 0 { // stripped
		header.Shoff, header.Shnum, header.Shstrndx = 0, 0, 0
	}
	var file bytes.Buffer
	write := func(v any) { binary.Write(&file, binary.LittleEndian, v) }
	write(header)
	write(elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: codeAt, Vaddr: Base, Paddr: Base,
		Filesz: uint64(len(code)), Memsz: uint64(len(code)), Align: 0x1000,
	})
	file.Write(make([]byte, codeAt-file.Len()))
	file.Write(code)
	file.Write(table)
	file.Write(strings)
	write(elf.Section64{})
	flags := uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR)
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: flags, Addr: Base, Off: codeAt, Size: uint64(len(code))})
	write(elf.Section64{Name: 7, Type: uint32(elf.SHT_SYMTAB), Off: symAt, Size: uint64(len(table)), Link: 3, Info: 1, Entsize: 24})
	write(elf.Section64{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strings))})
	return file.Bytes()
}

func Asm(pieces ...string) []byte {
	var code []byte
	for _, p := range pieces {
		code = append(code, p...)
	}
	return code
}

// Exit is exit_group(status) in 12 bytes.
func Exit(status byte) string {
	return "\xbf" + string([]byte{status}) + "\x00\x00\x00" + "\xb8\xe7\x00\x00\x00" + "\x0f\x05"
}
