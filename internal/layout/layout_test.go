package layout

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestOwns(t *testing.T) {
	for _, c := range []struct {
		addr, n uint64
		want    bool
	}{
		{Base - 1, 1, false}, {Base - 1, 2, true}, {End - 1, 1, true}, {End, 1, false}, {Base + 0x2000, 8, true},
		{Base - 4096, End - Base + 8192, true}, {0, Base, false}, {^uint64(0) - 7, 8, false}, // ends at 2^64
	} {
		require.Equal(t, fmt.Sprintf("Owns(%#x, %d)", c.addr, c.n), c.want, Owns(c.addr, c.n))
	}
}

// The areas lie apart, in the region, and on pages.
func TestAreas(t *testing.T) {
	type area struct {
		name     string
		at, size uint64
	}
	areas := []area{
		{"stub", Stub, PageSize}, {"frames", Frames, FramesSize}, {"counters", Counters, MaxCounters * PageSize},
		{"log", Log, LogSize}, {"control", Control, ControlSize}, {"list", Ops, OpsSize}, {"samples", Samples, SamplesSize},
		{"restore", Restore, RestoreSize}, {"code", Code, CodeSize},
		{"dry-run loop", DryRunLoop, DryRunLoopSize}, {"dry-run list", DryRunOps, DryRunOpsSize}, {"dry-run code", DryRunCode, DryRunCodeSize}, {"end", End, 0},
	}
	// mprotect(2) takes no gaps.
	for _, gapless := range [][]area{areas[3:9], areas[9:]} {
		for i, a := range gapless[:len(gapless)-1] {
			require.Equal(t, "after "+a.name, gapless[i+1].at, a.at+a.size)
		}
	}
	if DryRunCodeSize < CodeSize {
		t.Error("an image that can be timed may not fit a dry run")
	}
	for i, a := range areas[:len(areas)-1] {
		if a.at%PageSize != 0 || a.size%PageSize != 0 || a.at < Base || a.at+a.size > areas[i+1].at {
			t.Errorf("%s: %#x to %#x, next is %#x", a.name, a.at, a.at+a.size, areas[i+1].at)
		}
	}
	// The filter compares halves of addresses; the package comment promises rip-relative reach.
	if Base>>32 != End>>32 || uint32(Base&0xffff_ffff) != 0 || End-Base > 1<<31 {
		t.Error("the region crosses a multiple of 2^32 or is too large")
	}
	// ±1.75 GiB around Home from any copy.
	if reach := uint64(7 << 28); Home+reach-Code > 1<<31 || Home < End {
		t.Error("Home is out of reach, or within the region")
	}
	if MaxOps*OpSize > OpsSize || DryRunList+MaxDryRunOps*OpSize > DryRunCode || DryRunFlags+8 > DryRunList ||
		MaxRestore*8 > RestoreSize || MaxFrames*PageSize > FramesSize {
		t.Error("a limit does not fit its area")
	}
}

func TestSlots(t *testing.T) {
	const rusage = 144 // struct rusage (getrusage(2))
	if slotsEnd > Phases || Phases+MaxPhases*PhaseSize > Usage || Usage+rusage > UsageEnd || UsageEnd+rusage > Times ||
		Times+8*(MaxRuns+1) > Control+ControlSize {
		t.Error("table and usage overlap")
	}
	if SlotLost < UsageEnd+rusage || SlotLost+8 > Times || SlotLost%8 != 0 {
		t.Errorf("slot %#x", SlotLost)
	}
	if end := CountTable(MaxCounted); end > Samples+PageSize || CountLock(0) < CountSelect(MaxCounted) || CountTable(0) < CountLock(MaxCounted) {
		t.Errorf("the tables of counters overlap, or end at %#x", end)
	}
	if MaxPhases < 6 {
		t.Errorf("%d phases do not hold two chains and two images, timed twice", MaxPhases)
	}
}
