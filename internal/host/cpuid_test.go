package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// answers stand in for a CPU: EAX, EBX, ECX, EDX by leaf and subleaf; others are 0.
func answers(by map[[2]uint32][4]uint32) CPUID {
	return func(leaf, sub uint32) (eax, ebx, ecx, edx uint32) {
		r := by[[2]uint32{leaf, sub}]
		return r[0], r[1], r[2], r[3]
	}
}

func TestCaches(t *testing.T) {
	const intelTop, amdTop = 0x16, 0x8000_0021
	for _, c := range []struct {
		name string
		id   CPUID
		want []Cache
	}{
		{"Skylake client, leaf 4", answers(map[[2]uint32][4]uint32{
			{0, 0}: {intelTop}, {leafExtended, 0}: {0x8000_0008},
			{4, 0}: {0x1c00_4121, 0x01c0_003f, 63}, {4, 1}: {0x1c00_4122, 0x01c0_003f, 63},
			{4, 2}: {0x1c00_4143, 0x00c0_003f, 1023}, {4, 3}: {0x1c03_c163, 0x03c0_003f, 8191},
		}), []Cache{
			{1, "data", 32 << 10, 8, 64}, {1, "instruction", 32 << 10, 8, 64},
			{2, "unified", 256 << 10, 4, 64}, {3, "unified", 8 << 20, 16, 64},
		}},
		{"Golden Cove's L1D", answers(map[[2]uint32][4]uint32{
			{0, 0}: {0x20}, {4, 0}: {0xfc00_4121, 0x02c0_003f, 63},
		}), []Cache{{1, "data", 48 << 10, 12, 64}}},
		{"Zen 5, whose leaf 4 is empty", answers(map[[2]uint32][4]uint32{
			{0, 0}: {0x10}, {leafExtended, 0}: {amdTop},
			{leafCachesAMD, 0}: {0x0000_4121, 0x02c0_003f, 63}, {leafCachesAMD, 1}: {0x0000_4122, 0x01c0_003f, 63},
		}), []Cache{{1, "data", 48 << 10, 12, 64}, {1, "instruction", 32 << 10, 8, 64}}},
		{"one leaf short of either", answers(map[[2]uint32][4]uint32{
			{0, 0}: {3}, {leafExtended, 0}: {leafCachesAMD - 1}, {4, 0}: {0x1c00_4121, 0x01c0_003f, 63}, {leafCachesAMD, 0}: {0x4121, 0x01c0_003f, 63},
		}), nil},
		{"nothing", answers(nil), nil},
	} {
		require.Equal(t, c.name, c.want, Caches(c.id))
	}
	endless := func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) {
		return map[uint32]uint32{leafExtended: amdTop, leafCachesAMD: 0x4121}[leaf], 0x01c0_003f, 63, 0
	}
	require.Equal(t, "caches of one answer for all subleafs", maxCaches, len(Caches(endless)))
}

// TestHypervisor: an emulator, on which nothing can be timed, is known also where it hides the bit that hypervisors set.
func TestHypervisor(t *testing.T) {
	const bit = 1 << 31
	signed := func(leaf1, ebx, ecx, edx uint32) CPUID {
		return answers(map[[2]uint32][4]uint32{{1, 0}: {0, 0, leaf1}, {0x4000_0000, 0}: {0x4000_0001, ebx, ecx, edx}})
	}
	for _, c := range []struct {
		name     string
		id       CPUID
		want     string
		emulated bool
	}{
		{"bare metal, whatever that leaf repeats", signed(bit-1, 7, 7, 7), "", false},
		{"KVMKVMKVM", signed(bit, 0x4b4d564b, 0x564b4d56, 0x0000004d), "KVM", false},
		{"Microsoft Hv", signed(bit, 0x7263694d, 0x666f736f, 0x76482074), "Hyper-V", false},
		{"TCGTCGTCGTCG", signed(bit, 0x54474354, 0x43544743, 0x47435447), emulator, true},
		{"the same, without the bit", signed(0, 0x54474354, 0x43544743, 0x47435447), "", true},
		{"one that nobody knows", signed(bit, 0x41414141, 0x42424242, 0x43434343), "AAAABBBBCCCC", false},
		{"no signature", signed(bit, 0, 0, 0), "an unnamed hypervisor", false},
	} {
		require.Equal(t, c.name, c.want, hypervisor(c.id))
		lacks, ok := errors.AsType[*verdict.HostError](CanTime(c.id))
		if ok != c.emulated || ok && !(strings.Contains(lacks.Missing, "emulated in software") && strings.Contains(lacks.Remedy, "-accel kvm")) {
			t.Errorf("%s: %v", c.name, lacks)
		}
	}
}

// TestDisabled: what CPUID announces and cannot be used is the operating system's doing.
func TestDisabled(t *testing.T) {
	const avx, avx512 = 1 << 28, 1 << 16
	for _, c := range []struct {
		name               string
		highest, ecx1, ebx uint32
		usable, want       asm.Features
	}{
		{"both are there and usable", 7, avx, avx512, asm.Features{AVX: true, AVX512: true}, asm.Features{}},
		{"none is there", 7, avx - 1, avx512 - 1, asm.Features{}, asm.Features{}},
		{"noxsave", 7, avx, avx512, asm.Features{}, asm.Features{AVX: true, AVX512: true}},
		{"AVX-512 alone is off", 7, avx, avx512, asm.Features{AVX: true}, asm.Features{AVX512: true}},
		{"a CPU without the leaf", 6, avx, avx512, asm.Features{AVX: true}, asm.Features{}},
	} {
		id := answers(map[[2]uint32][4]uint32{{0, 0}: {c.highest}, {1, 0}: {0, 0, c.ecx1}, {7, 0}: {0, c.ebx}})
		require.Equal(t, c.name, c.want, disabled(id, c.usable))
	}
}

func TestInvariantTSC(t *testing.T) {
	for _, c := range []struct {
		top, edx uint32
		want     bool
	}{
		{leafPower, 1 << 8, true}, {leafPower, 1 << 7, false}, {leafPower, 0, false},
		{leafPower - 1, 1 << 8, false}, // the leaf is not there: what it answers is another's
	} {
		id := answers(map[[2]uint32][4]uint32{{leafExtended, 0}: {c.top}, {leafPower, 0}: {0, 0, 0, c.edx}})
		require.Equal(t, fmt.Sprintf("highest %#x, edx %#x", c.top, c.edx), c.want, InvariantTSC(id))
	}
}

// TestThisCPU: the kernel reads the same leaves.
func TestThisCPU(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Skip(t, require.CPU, "no CPUID here")
	}
	if Ticks() == 0 {
		t.Error("the time-stamp counter reads 0")
	}
	cpus, err := AllowedCPUs()
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	runtime.LockOSThread() // for good: the thread ends with the test, bound as it is to a CPU of one kind
	if err := PinThread(cpus[0]); err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	caches := Caches(AskCPUID)
	if len(caches) == 0 {
		require.Skip(t, require.CPU, "CPUID tells nothing of caches, as some hypervisors have it")
	}
	for i, c := range caches {
		dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/index%d/", cpus[0], i)
		for file, want := range map[string]string{
			"level": fmt.Sprint(c.Level), "type": c.Kind, "size": fmt.Sprintf("%dK", c.Bytes>>10),
			"ways_of_associativity": fmt.Sprint(c.Ways), "coherency_line_size": fmt.Sprint(c.Line),
		} {
			b, err := os.ReadFile(dir + file)
			if err != nil {
				require.Skip(t, require.Kernel, "the kernel shows no caches: %v", err)
			}
			if got := strings.ToLower(strings.TrimSpace(string(b))); got != strings.ToLower(want) {
				t.Errorf("cache %d: %s is %s to the kernel, %s to us", i, file, got, want)
			}
		}
	}
}
