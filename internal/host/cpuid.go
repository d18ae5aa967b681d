package host

import (
	"bytes"
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// CPUID executes CPUID with leaf and subleaf in EAX and ECX. Tests pass another CPU's answers.
type CPUID func(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

type Cache struct {
	Level int    `json:"level"`
	Kind  string `json:"kind"` // data, instruction or unified
	Bytes int    `json:"bytes"`
	Ways  int    `json:"ways"`
	Line  int    `json:"line_bytes"`
}

// Leaves with one layout: Intel's deterministic cache parameters (SDM vol. 2, CPUID leaf 04H)
// and AMD's cache properties (APM vol. 3, Fn8000_001D).
const (
	leafCaches    = 4
	leafCachesAMD = 0x8000_001d

	leafExtended = 0x8000_0000 // its EAX is the highest extended leaf
	leafPower    = 0x8000_0007 // advanced power management

	maxCaches = 16 // under Xen, each subleaf of AMD's has the same answer, without an end
)

// Caches lists the caches, none if CPUID does not describe them.
func Caches(id CPUID) []Cache {
	if highest, _, _, _ := id(0, 0); highest >= leafCaches {
		if c := caches(id, leafCaches); len(c) > 0 { // AMD has zeros there
			return c
		}
	}
	if highest, _, _, _ := id(leafExtended, 0); highest >= leafCachesAMD {
		return caches(id, leafCachesAMD)
	}
	return nil
}

func caches(id CPUID, leaf uint32) (all []Cache) {
	kinds := map[uint32]string{1: "data", 2: "instruction", 3: "unified"}
	for sub := range uint32(maxCaches) {
		eax, ebx, ecx, _ := id(leaf, sub)
		kind, ok := kinds[eax&0x1f]
		if !ok {
			break
		}
		line, partitions, ways, sets := int(ebx&0xfff)+1, int(ebx>>12&0x3ff)+1, int(ebx>>22)+1, int(ecx)+1
		all = append(all, Cache{Level: int(eax >> 5 & 7), Kind: kind, Bytes: line * partitions * ways * sets, Ways: ways, Line: line})
	}
	return all
}

// hypervisor names the hypervisor, "" if none shows. Only hypervisors set CPUID leaf 1, ECX bit 31; they
// sign in leaf 4000_0000H.
func hypervisor(id CPUID) string {
	if _, _, ecx, _ := id(1, 0); ecx>>31 == 0 {
		return ""
	}
	s := signature(id)
	names := map[string]string{ // as systemd-detect-virt and virt-what know them
		"KVMKVMKVM":    "KVM",
		"Linux KVM Hv": "KVM", // with Hyper-V's interface
		"Microsoft Hv": "Hyper-V",
		"VMwareVMware": "VMware",
		"XenVMMXenVMM": "Xen",
		"VBoxVBoxVBox": "VirtualBox",
		"bhyve bhyve ": "bhyve",
		"ACRNACRNACRN": "ACRN",
		signatureTCG:   emulator,
	}
	switch name, ok := names[s]; {
	case ok:
		return name
	case s == "":
		return "an unnamed hypervisor"
	}
	return s
}

const emulator = "QEMU without KVM"

const signatureTCG = "TCGTCGTCGTCG"

// CanTime is a *verdict.HostError if this machine's times are not those of a CPU.
func CanTime(id CPUID) error {
	// QEMU signs that leaf also where it hides the hypervisor bit (-cpu MODEL,-hypervisor). A CPU without a
	// hypervisor answers with another leaf's numbers or with zeros.
	if signature(id) != signatureTCG {
		return nil
	}
	return &verdict.HostError{
		Missing: "this machine is emulated in software (" + emulator + "), so times are the emulator's and not a CPU's",
		Remedy:  "give the virtual machine the CPU itself (QEMU: -accel kvm -cpu host); bbprof count, which times nothing, does without",
	}
}

func signature(id CPUID) string {
	_, ebx, ecx, edx := id(0x4000_0000, 0)
	var sign []byte
	for _, r := range []uint32{ebx, ecx, edx} {
		sign = binary.LittleEndian.AppendUint32(sign, r)
	}
	return string(bytes.TrimRight(sign, "\x00"))
}

// leafExtensions has the bits of AVX-512 (SDM vol. 2, CPUID leaf 07H); AVX's is in leaf 1.
const leafExtensions = 7

// disabled are the CPU's extensions that are unusable since the operating system does not save their registers.
func disabled(id CPUID, usable asm.Features) (off asm.Features) {
	if highest, _, _, _ := id(0, 0); highest < leafExtensions {
		return off
	}
	_, _, ecx, _ := id(1, 0)
	_, ebx, _, _ := id(leafExtensions, 0)
	off.AVX = ecx>>28&1 == 1 && !usable.AVX
	off.AVX512 = ebx>>16&1 == 1 && !usable.AVX512
	return off
}

// InvariantTSC reports whether the time-stamp counter ticks at one rate in all states of the
// CPU (SDM vol. 3, 18.17.1; CPUID Fn8000_0007, EDX bit 8).
func InvariantTSC(id CPUID) bool {
	if highest, _, _, _ := id(leafExtended, 0); highest < leafPower {
		return false
	}
	_, _, _, edx := id(leafPower, 0)
	return edx>>8&1 == 1
}

func Stepping(id CPUID) int {
	eax, _, _, _ := id(1, 0)
	return int(eax & 0xf)
}

// leafXSave describes what XSAVE writes (SDM vol. 1, 13.2).
const leafXSave = 0xd

// XSaveOffsets are the offsets of components 2 to 31 in XSAVE's area, 0 for those that the CPU lacks.
func XSaveOffsets(id CPUID) (offsets [32]int) {
	if highest, _, _, _ := id(0, 0); highest < leafXSave {
		return offsets
	}
	for i := 2; i < len(offsets); i++ {
		if size, offset, _, _ := id(leafXSave, uint32(i)); size > 0 {
			offsets[i] = int(offset)
		}
	}
	return offsets
}
