package profiler

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// stimulus is a block with a known number of each event. Events are trusted only if they count this number.
type stimulus struct {
	name     string
	code     []byte
	setup    Setup
	expected map[pmu.Role]float64 // per iteration; 0 for others
	// executed is the number of executed instructions: for the block that jumps, only the jump.
	executed int
}

// stimuli returns the stimuli for a CPU: misses depend on the sizes of its caches. In the paper's state each register
// and each word of memory holds 0x12345600, the address of a line, so that the stores below change nothing and there
// is nothing to restore.
func stimuli(cpu host.CPU) []stimulus {
	// Lines a page apart map to one set, or to four in the largest L1I (Zen's), and the cache holds one of them
	// for each page of its size. Cycling through twice as many always misses with LRU or tree-PLRU; four times
	// as many certainly do. With a count of 64, one event is within 2 %.
	const surely, enough = 4, 64
	data := min(surely*cpu.L1D/layout.PageSize, layout.MaxFrames-enough)
	misses := Setup{Unroll: &unroll.Factors{Short: data, Long: layout.MaxFrames}, Frames: layout.MaxFrames}
	code := max(surely*cpu.FrontEnd.L1I/layout.PageSize, enough)
	jumps := Setup{Unroll: &unroll.Factors{Short: code, Long: 2 * code}}
	plain := Setup{Unroll: &unroll.Factors{Short: 64, Long: 256}}
	alias := plain
	alias.Frames = 8 // of five pages, so that no store feeds a load
	jump := []byte{0xe9, 0xfb, 0x0f, 0, 0}
	return []stimulus{
		{"an add of a chain", []byte{0x48, 0x01, 0xc0}, plain, nil, 1},
		// mov rax, [rbx]; mov [rbx+0x40], rcx
		{"a load and a store", []byte{0x48, 0x8b, 0x03, 0x48, 0x89, 0x4b, 0x40}, plain, nil, 2},
		// mov rax, [rbx+0x3c]
		{"a load that splits", []byte{0x48, 0x8b, 0x43, 0x3c}, plain, map[pmu.Role]float64{pmu.SplitLoad: 1}, 1},
		// mov dword ptr [rbx+0x3d], 0
		{"a store that splits", []byte{0xc7, 0x43, 0x3d, 0, 0, 0, 0}, plain, map[pmu.Role]float64{pmu.SplitStore: 1}, 1},
		// mov rax, [rbx]; add rbx, 0x1000
		{"a load that misses L1D", []byte{0x48, 0x8b, 0x03, 0x48, 0x81, 0xc3, 0, 0x10, 0, 0}, misses, map[pmu.Role]float64{pmu.L1DReadMiss: 1}, 2},
		// mov [rbx], rax; add rbx, 0x1000
		{"a store that misses L1D", []byte{0x48, 0x89, 0x03, 0x48, 0x81, 0xc3, 0, 0x10, 0, 0}, misses, map[pmu.Role]float64{pmu.L1DWriteMiss: 1}, 2},
		// jmp to the next copy, a page on
		{"a line of code that misses L1I", append(jump, filler(layout.PageSize-len(jump))...), jumps, map[pmu.Role]float64{pmu.L1IMiss: 1}, 1},
		// mov [rbx], rax; mov rcx, [rbx+0x1000]; add rbx, 0x40
		{"a load that aliases at 4 KiB", []byte{0x48, 0x89, 0x03, 0x48, 0x8b, 0x8b, 0, 0x10, 0, 0, 0x48, 0x83, 0xc3, 0x40}, alias,
			map[pmu.Role]float64{pmu.AddressAlias: 1}, 3},
	}
}

// filler returns nops that never execute.
func filler(bytes int) []byte {
	e := asm.NewEmitter(0)
	e.Nop(bytes)
	return e.Bytes()
}

// block returns the stimulus as a job of the session, with its instructions. It violates the rules on purpose, so they are tolerated.
func (x stimulus) block(s *session) (j job, insts []asm.Inst, err error) {
	b := Block{Code: x.code, Setup: x.setup}
	paper := initial.Paper()
	b.Setup.Init, b.Setup.Mode, b.Setup.FrontEnd = &paper, Unroll, OpCache
	b.Setup.Tolerate = []verdict.Reason{verdict.L1DMiss, verdict.L1IMiss, verdict.DTLBMiss, verdict.Misaligned, verdict.Alias4K}
	j = s.job(b)
	j.Layout = nil
	insts, err = asm.Decode(x.code)
	return j, insts, err
}

// instructions is the kernel's generic event.
var instructions = pmu.Attr{Type: pmu.TypeHardware, Config: 1}

// counts returns the expected count of an event per iteration; ok is false if that is not known. others lists the
// events of roles, some of which may share a counter event.
func (x stimulus) counts(e pmu.Event, others []pmu.Event) (n float64, ok bool) {
	if e.Attr == instructions {
		return float64(x.executed), true
	}
	serving := e.Role
	for _, o := range others {
		if o.Shares == "" && o.Attr == e.Attr && o.Role != pmu.Cycles {
			serving, ok = o.Role, true // the user may have asked for it by name
		}
	}
	n = x.expected[serving]
	for _, o := range others {
		if o.Shares == serving {
			n += x.expected[o.Role]
		}
	}
	return n, ok
}

// CounterCheck compares an event's count over a block with the expected count.
type CounterCheck struct {
	Block   string  `json:"block"`
	Must    float64 `json:"must"` // per iteration, like Counted
	Counted float64 `json:"counted"`
	Failed  string  `json:"failed,omitempty"` // why the block could not be counted
}

// countedShare is the largest deviation of an event from its expected count, as a share of that or of one.
const countedShare = 0.02

// doubt explains what is wrong with an event's checks, if anything. An inexact event may count too much where the
// expected count is positive, but not where it is zero.
func doubt(e pmu.Event, checks []CounterCheck) string {
	for _, c := range checks {
		if c.Failed != "" {
			return fmt.Sprintf("%s, which would tell what it counts, cannot be measured: %s", c.Block, c.Failed)
		}
		off := c.Counted - c.Must
		if more := !e.Exact && e.Role != pmu.Asked && c.Must > 0; more {
			off = min(off, 0)
		}
		if !(math.Abs(off) <= countedShare*max(c.Must, 1)) {
			return fmt.Sprintf("where an iteration is %s it counted %.3g and must count %g", c.Block, c.Counted, c.Must)
		}
	}
	return ""
}
