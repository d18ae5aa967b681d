package tracee

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/layout"
)

// request is struct seccomp_data (linux/seccomp.h).
type request struct {
	nr, arch uint32
	ip       uint64
	args     [6]uint64
}

// verdictOf interprets a filter like the kernel, as far as ours needs it.
func verdictOf(t *testing.T, prog []bpfInsn, r request) uint32 {
	t.Helper()
	data := binary.LittleEndian.AppendUint32(nil, r.nr)
	data = binary.LittleEndian.AppendUint32(data, r.arch)
	data = binary.LittleEndian.AppendUint64(data, r.ip)
	for _, a := range r.args {
		data = binary.LittleEndian.AppendUint64(data, a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		var jump bool
		switch in.code {
		case bpfLoad:
			acc = binary.LittleEndian.Uint32(data[in.k:])
			continue
		case bpfRet:
			return in.k
		case bpfJeq:
			jump = acc == in.k
		case bpfJge:
			jump = acc >= in.k
		default:
			t.Fatalf("instruction %d: code %#x", pc, in.code)
		}
		if jump {
			pc += int(in.jt)
		} else {
			pc += int(in.jf)
		}
	}
	t.Fatal("the filter runs off its end")
	return 0
}

// permitted is an independent formulation of the filter.
func permitted(gate uint64, r request) bool {
	if r.arch != archX8664 || r.ip != gate {
		return false
	}
	a := r.args
	switch r.nr {
	case 11: // munmap
		return a[0] == 0 && a[1] == layout.Base || a[0] == layout.End && a[1] == 1<<47-4096-layout.End
	case 10: // mprotect
		return slices.Contains([][3]uint64{
			{layout.Log, layout.CodeEnd - layout.Log, 0}, {layout.DryRunLoop, 4096, 3}, {layout.DryRunLoop, 4096, 0}, {layout.Log, layout.Code - layout.Log, 3},
			{layout.Code, layout.CodeEnd - layout.Code, 5},
		}, [3]uint64(a[:3]))
	case 98: // getrusage
		return a[0] == 0 && (a[1] == layout.Usage || a[1] == layout.UsageEnd)
	case 25: // mremap
		return a[0] >= layout.Frames && a[0] < layout.Frames+layout.FramesSize && a[1] == 0 && a[2] == 4096 && a[3] == 3 &&
			(a[4] < layout.Base || a[4] >= layout.End)
	}
	return false
}

// Permitted requests, and each with one field changed: to its neighbours, to another upper half, to anything.
func TestFilterByRequest(t *testing.T) {
	gate := buildStub(0, 0).gate
	prog := filter(gate, 0, 0)
	var good []request
	for _, op := range []Op{
		unmapBelow(), unmapAbove(), UsageBefore(), UsageAfter(),
		MapFrame(0, 0), MapFrame(0x1234_5000, 3), MapFrame(layout.Base-4096, 0), MapFrame(layout.End, 15), MapFrame(1<<47, 0),
	} {
		good = append(good, request{uint32(op.number), archX8664, gate, op.args})
	}
	for _, op := range append(toDryRun(0, 0), append(toMeasure(0, 0), append(OpenCounter(0), closeCounter(0)...)...)...) {
		good = append(good, request{uint32(op.number), archX8664, gate, op.args})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	interesting := []uint64{0, 1, 2, 3, 4096, 8192, layout.Base, layout.Stub, layout.Control, layout.Usage, layout.UsageEnd,
		layout.Ops, layout.Frames, layout.Frames + layout.FramesSize, layout.Code, layout.End, layout.UserEnd, layout.UserEnd - layout.End,
		1 << 31, 1 << 32, 1 << 47, 1 << 63, ^uint64(0)}
	change := func(v uint64) uint64 {
		switch rng.IntN(4) {
		case 0:
			return v + rng.Uint64N(3) - 1
		case 1:
			return v ^ 1<<rng.IntN(64)
		case 2:
			return interesting[rng.IntN(len(interesting))] + rng.Uint64N(3)*4096 - 4096
		}
		return v + rng.Uint64N(3)<<32
	}
	allowed, trapped := 0, 0
	for i := range 200_000 {
		r := good[i%len(good)]
		if i >= len(good) {
			switch f := rng.IntN(9); f {
			case 0:
				r.nr = uint32(change(uint64(r.nr)))
			case 1:
				r.arch = []uint32{archX8664, 0x4000_0003, 0xc000_003e ^ 1<<rng.IntN(32)}[rng.IntN(3)] // AUDIT_ARCH_I386
			case 2:
				r.ip = change(r.ip)
			default:
				r.args[f-3] = change(r.args[f-3])
			}
		}
		want := uint32(retTrap)
		if permitted(gate, r) {
			want = retAllow
			allowed++
		} else {
			trapped++
		}
		if got := verdictOf(t, prog, r); got != want {
			t.Fatalf("%+v: %#x, want %#x", r, got, want)
		}
	}
	if allowed < 1000 || trapped < 1000 {
		t.Errorf("%d allowed, %d trapped: one side is hardly tested", allowed, trapped)
	}
}
