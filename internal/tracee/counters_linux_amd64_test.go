package tracee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// Software events exist without a PMU, and are opened, mapped and closed like all others.
var software = []pmu.Attr{
	{Type: pmu.TypeSoftware, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Leader: true},
	{Type: pmu.TypeSoftware, Config: unix.PERF_COUNT_SW_PAGE_FAULTS},
}

func launchCounting(t *testing.T, attrs []pmu.Attr) *Tracee {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := Launch(0, fsBase, gsBase, Counter{attrs[0].Bytes(), -1}, Counter{attrs[1].Bytes(), 0})
	if _, host := errors.AsType[*verdict.HostError](err); host || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		require.Skip(t, require.Kernel, "%v", err)
	}
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// The child opens, maps and closes its events, and keeps the pages without descriptors; the monitor switches the
// events on and reads them.
func TestCountersOfTheChild(t *testing.T) {
	c := launchCounting(t, software)
	require.Equal(t, "descriptors of the child", 0, len(descriptorsOf(t, c.pid)))
	for i := range software {
		at := fmt.Sprintf("%x-%x r--s", layout.CounterPage(i), layout.CounterPage(i)+layout.PageSize)
		if m := mappings(t, c); !strings.Contains(m, at) {
			t.Errorf("no page %s among\n%s", at, m)
		}
	}
	mustServe(t, c)

	var k pmu.Linux
	leader := c.Counters()[0]
	if before, err := pmu.ReadGroup(k, leader, 2); err == nil {
		t.Errorf("counted %v before it was enabled", before.Values)
	}
	require.NoError(t, k.Control(leader, pmu.Enable))
	// Two newly mapped frames each fault when touched.
	place(c, func(e *asm.Emitter) {
		e.MovImm(asm.RSI, 0x1000_0000)
		e.StoreAt(asm.RSI, 0, asm.RAX)
		e.MovImm(asm.RSI, 0x1000_1000)
		e.StoreAt(asm.RSI, 0, asm.RAX)
	})
	if stop := do(t, c, MapFrame(0x1000_0000, 0), MapFrame(0x1000_1000, 1), Run(entry, 3)); !stop.Done {
		t.Fatalf("%+v", stop)
	}
	require.NoError(t, k.Control(leader, pmu.Disable))
	got := require.Get(pmu.ReadGroup(k, leader, 2))(t)
	if got.Values[0] == 0 || got.Values[1] < 2 {
		t.Errorf("%d ns of CPU time and %d page faults, want some and at least 2", got.Values[0], got.Values[1])
	}
}

// An event unknown to the kernel fails the launch with its index, and leaves no child or descriptor behind.
func TestUnknownEvent(t *testing.T) {
	launchCounting(t, software) // or skip
	before := descriptorsOf(t, os.Getpid())
	attrs := append(software[:1:1], pmu.Attr{Type: 0x7fff_0000})
	_, err := Launch(0, fsBase, gsBase, Counter{attrs[0].Bytes(), -1}, Counter{attrs[1].Bytes(), 0})
	if refused, ok := errors.AsType[*CounterError](err); !ok || refused.Index != 1 || !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
	require.Equal(t, "descriptors", len(before), len(descriptorsOf(t, os.Getpid())))
}

// fakePage is the page that a kernel with a PMU writes for an event on a counter.
func fakePage(lock uint32, counter int) []byte {
	p := make([]byte, layout.PageSize)
	binary.LittleEndian.PutUint32(p[harness.PageLock:], lock)
	binary.LittleEndian.PutUint32(p[harness.PageIndex:], uint32(counter+1))
	return p
}

// The counting code runs here unchanged except for the read itself: rdtsc replaces rdpmc, and fake pages those of
// a kernel with a PMU.
func TestCountedRuns(t *testing.T) {
	c := launch(t)
	counters := harness.Counters{Pages: []uint64{layout.Log, layout.Log + layout.PageSize, layout.Log + 2*layout.PageSize}}
	// The sum of ecx over the reads.
	selected := uint64(layout.Log + 8*layout.PageSize)
	counters.Read = func(e *asm.Emitter) {
		e.Load(asm.RAX, selected)
		e.Add(asm.RAX, asm.RCX)
		e.Store(selected, asm.RAX)
		e.Rdtsc()
	}
	for i, counter := range []int{1 << 30, 2, 0} { // fixed counters have bit 30 set (SDM vol. 2, RDPMC)
		copy(c.Log()[i*layout.PageSize:], fakePage(uint32(100+i), counter))
	}
	e := asm.NewEmitter(layout.Code)
	open, close := counters.Open(e, c.Resume()), counters.Close(e, c.Resume())
	e.Align(64)
	image := e.PC()
	e.Nop(64)
	harness.Epilogue(e, image, counters.Clock)
	copy(c.Code(), e.Bytes())

	const runs = 5
	c.SetWord(layout.SlotLost, 0)
	if stop := do(t, c, Run(open, 0), Run(image, runs), Run(close, 0)); !stop.Done || c.Word(layout.SlotLost) != 0 {
		t.Fatalf("%+v, %d events lost", stop, c.Word(layout.SlotLost))
	}
	word := func(addr uint64) uint64 {
		return binary.LittleEndian.Uint64(c.Samples()[addr-layout.Samples:])
	}
	var last uint64
	for left := runs; left > 0; left-- {
		// Read order: the third event, the second, core cycles.
		for i, v := range []uint64{word(layout.CountTable(2) + 8*uint64(left)), word(layout.CountTable(1) + 8*uint64(left)),
			c.Word(layout.Times + 8*uint64(left))} {
			if v <= last {
				t.Errorf("%d runs left, reading %d: %d after %d", left, i, v, last)
			}
			last = v
		}
	}
	sum := binary.LittleEndian.Uint64(c.Log()[8*layout.PageSize:])
	require.Equal(t, "sum of the counters read", uint64(runs*(1<<30+2+0)), sum)

	// A changed lock, and an event without a counter.
	copy(c.Log(), fakePage(101, 1<<30))
	do(t, c, Run(close, 0))
	require.Equal(t, "events lost", uint64(1), c.Word(layout.SlotLost))
	copy(c.Log()[layout.PageSize:], fakePage(101, -1))
	do(t, c, Run(open, 0))
	require.Equal(t, "events lost", uint64(2), c.Word(layout.SlotLost))
	require.Equal(t, "counters", [3]uint64{1 << 30, 0, 0},
		[3]uint64{word(layout.CountSelect(0)), word(layout.CountSelect(1)), word(layout.CountSelect(2))})
	mustServe(t, c)
}
