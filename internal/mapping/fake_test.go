package mapping

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// fake answers each list with the next stop of a script, and writes the lists down.
type fake struct {
	t      *testing.T
	script []tracee.Stop
	err    error // after the script
	lists  [][]tracee.Op
	frames [layout.MaxFrames][layout.PageSize]byte
	image  harness.Image // in a dry run
}

func (f *fake) Do(ops []tracee.Op, limit time.Duration) (tracee.Stop, error) {
	require.Equal(f.t, "limit", limitOfPlan, limit)
	f.lists = append(f.lists, append([]tracee.Op(nil), ops...))
	if n := len(f.lists) - 1; n < len(f.script) {
		return f.script[n], nil
	}
	return tracee.Stop{Done: f.err == nil, FailedOp: -1}, f.err
}

func (f *fake) Try(ops []tracee.Op, entry, end uint64, limit time.Duration) (tracee.Stop, error) {
	if entry != f.image.Address || end != f.image.End() {
		f.t.Errorf("a dry run from %#x to %#x, the image is at %#x to %#x", entry, end, f.image.Address, f.image.End())
	}
	return f.Do(ops, limit)
}

func (f *fake) Frame(i int) []byte { return f.frames[i][:] }

const limitOfPlan = 3 * time.Second

// plan is that of a block of nops, unless bytes are given, and its image.
func plan(t *testing.T, code ...byte) (Plan, harness.Image) {
	t.Helper()
	if len(code) == 0 {
		code = []byte{0x90}
	}
	insts := require.Get(asm.Decode(code))(t)
	p := Plan{Insts: insts, Init: initial.Paper(), Frames: 1, Pages: 4, Limit: limitOfPlan}
	im := require.Get(harness.BuildDryRun(insts, 3, nil, harness.Harness{Init: p.Init, Reset: harness.Reset{Memory: true}}))(t)
	return p, im
}

// fault is a stop at the first copy's first byte.
func fault(im harness.Image, sig, code int, addr uint64) tracee.Stop {
	return tracee.Stop{FailedOp: -1, Signal: sig, Code: code, Addr: addr, Regs: tracee.Regs{RIP: im.FirstCopy}}
}

func rejected(t *testing.T, err error, reason verdict.Reason) *verdict.Rejection {
	t.Helper()
	r, ok := errors.AsType[*verdict.Rejection](err)
	if !ok || r.Reason != reason {
		t.Fatalf("%v, want %s", err, reason)
	}
	return r
}

// Each fault maps its page and starts over; the first list clears what was there before.
func TestMapLists(t *testing.T) {
	p, im := plan(t)
	p.Frames = 2
	c := &fake{t: t, image: im, script: []tracee.Stop{
		fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x1234_5678),
		fault(im, tracee.SIGSEGV, tracee.SegvAccErr, 0x1234_6000),
		fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0xfff),
	}}
	m := require.Get(mapPages(c, p, im))(t)
	want := [][]tracee.Op{
		tracee.UnmapAll(0),
		{tracee.MapFrame(0x1234_5000, 0)},
		{tracee.MapFrame(0x1234_6000, 1)},
		{tracee.MapFrame(0, 0)},
	}
	if m.Stops != len(want) || !slices.EqualFunc(c.lists, want, slices.Equal) {
		t.Errorf("%d stops, lists %v, want %v", m.Stops, c.lists, want)
	}
	require.Equal(t, "pages", []mapper.Page{{Addr: 0x1234_5000, Fault: 0x1234_5678},
		{Addr: 0x1234_6000, Frame: 1, Fault: 0x1234_6000}, {Fault: 0xfff}}, m.Pages)
	remap := tracee.UnmapAll(0)
	for i, page := range m.Pages {
		remap = append(remap, want[i+1][0], tracee.Touch(page.Addr))
	}
	require.Equal(t, "remapping", remap, m.remap(0, 0), cmp.AllowUnexported(tracee.Op{}))
}

func TestAddressesThatNoPageCanBeAt(t *testing.T) {
	p, im := plan(t)
	for _, code := range []int{tracee.SegvMapErr, tracee.SegvAccErr} {
		page := func(addr uint64) (Mapping, error) {
			return mapPages(&fake{t: t, image: im, script: []tracee.Stop{fault(im, tracee.SIGSEGV, code, addr)}}, p, im)
		}
		for _, addr := range []uint64{0, layout.Base - 1, layout.End, layout.UserEnd - 1} {
			if m, err := page(addr); err != nil || len(m.Pages) != 1 || m.Pages[0].Addr != addr&^4095 {
				t.Errorf("%#x: %v, %+v", addr, err, m.Pages)
			}
		}
		for hint, addrs := range map[string][]uint64{
			"own region":       {layout.Base, layout.Base + 0x2000, layout.End - 1},        // the second in a gap of it
			"above user space": {layout.UserEnd, 1<<47 - 1, 1 << 47, 1<<56 - 1, 1<<63 - 1}, // 1<<47 is canonical with 5-level paging
			"kernel":           {1 << 63, ^uint64(0)},
		} {
			for _, addr := range addrs {
				_, err := page(addr)
				if r := rejected(t, err, verdict.Unmappable); !strings.Contains(r.Detail, hint) || r.Address == nil || *r.Address != addr || r.Inst == nil {
					t.Errorf("%#x: %v, want %q", addr, r, hint)
				}
			}
		}
	}
}

// Which instruction of which copy; a trap is reported after its instruction.
func TestBlame(t *testing.T) {
	p, im := plan(t, 0x90, 0x66, 0x90, 0x0f, 0x1f, 0x00) // nops of 1, 2 and 3 bytes
	for copy := range uint64(3) {
		for sig, blamed := range map[int]map[uint64]int{ // the instruction by the byte of the copy
			tracee.SIGILL: {0: 0, 1: 1, 2: 1, 3: 2, 5: 2}, tracee.SIGTRAP: {1: 0, 3: 1, 6: 2}, tracee.SIGSYS: {1: 0, 3: 1, 6: 2},
		} {
			for offset, want := range blamed {
				stop := fault(im, sig, 1, 0)
				stop.Regs.RIP = im.FirstCopy + 6*copy + offset
				_, err := mapPages(&fake{t: t, image: im, script: []tracee.Stop{stop}}, p, im)
				if r, ok := errors.AsType[*verdict.Rejection](err); !ok || r.Inst == nil || r.Inst.Index != want {
					t.Errorf("signal %d at byte %d of copy %d: %v, want instruction %d", sig, offset, copy, err, want)
				}
			}
		}
	}
}

// What ends a mapping: a rejection, or a failure of bbprof that blames neither the block nor the host.
func TestMappingEnds(t *testing.T) {
	p, im := plan(t)
	script := func(stops ...tracee.Stop) *fake { return &fake{t: t, image: im, script: stops} }
	page := func(addr uint64) tracee.Stop { return fault(im, tracee.SIGSEGV, tracee.SegvMapErr, addr) }
	refused := func(errno int) tracee.Stop { return tracee.Stop{Errno: errno} }
	elsewhere := func(rip uint64) *fake {
		stop := page(0x1000)
		stop.Regs.RIP = rip
		return script(stop)
	}
	const failure verdict.Reason = ""
	for i, c := range []struct {
		child  *fake
		reason verdict.Reason
		hint   string
	}{
		{script(page(0x10), refused(1)), verdict.Unmappable, "mmap_min_addr"},  // EPERM
		{script(page(0x10), refused(13)), verdict.Unmappable, "mmap_min_addr"}, // EACCES
		{script(page(0x10), refused(12)), verdict.Unmappable, "memory"},        // ENOMEM
		{script(page(0x10), refused(22)), failure, "errno 22"},
		{script(refused(12)), failure, "clearing"},
		{script(page(0x1234_5008), page(0x1234_5ff0)), failure, "0x12345000"}, // it is mapped, and would fault for ever
		{elsewhere(im.Address), failure, "outside"},
		{elsewhere(im.FirstCopy - 1), failure, "outside"},
		{elsewhere(im.FirstCopy + 3), failure, "outside"},
		{elsewhere(im.End()), failure, "outside"},
		{elsewhere(layout.Stub), failure, "outside"},
		{elsewhere(0), failure, "outside"},
		{script(fault(im, tracee.SIGFPE, 3, 0)), verdict.SIGFPE, "code 3"},
		{script(fault(im, tracee.SIGBUS, tracee.BusAdrAln, 0)), verdict.SIGBUS, "split_lock"}, // no flag is set
		{script(fault(im, tracee.SIGBUS, 2, 0)), verdict.SIGBUS, "code 2"},
		{script(fault(im, tracee.SIGBUS, tracee.SiKernel, 0)), verdict.SIGSEGV, "protection fault"}, // a nop has no operand to blame
		{script(fault(im, tracee.SIGSEGV, 4, 0)), verdict.SIGSEGV, "code 4"},                        // SEGV_PKUERR
		{&fake{t: t, image: im, err: &tracee.DeadError{Overtime: true, Limit: limitOfPlan}}, verdict.Timeout, "3s"},
		{&fake{t: t, image: im, err: &tracee.DeadError{Status: "killed by killed"}}, failure, "killed by killed"},
	} {
		_, err := mapPages(c.child, p, im)
		host := new(*verdict.HostError)
		if err == nil || verdict.ReasonOf(err) != c.reason || errors.As(err, host) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("case %d: %v, want %q about %q", i, err, c.reason, c.hint)
		}
		if r, ok := errors.AsType[*verdict.Rejection](err); ok && c.reason == verdict.Unmappable && (*r.Address != 0x10 || r.Inst.Text != "nop") {
			t.Errorf("case %d: %+v", i, r)
		}
	}
}

// Words that differ from the fill, once each, by the first page on their frame.
func TestDirty(t *testing.T) {
	p, im := plan(t)
	p.Frames = 2
	c := &fake{t: t, image: im}
	p.refill(c, nil, 0)
	m := Mapping{Pages: []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0x5000, Frame: 0}}}
	require.Equal(t, "after a refill", 0, len(m.dirty(c, p)))
	c.frames[0][0]++     // the first byte
	c.frames[0][4095]++  // the last
	c.frames[1][0x10]++  // two bytes of one word
	c.frames[1][0x17]++  //
	c.frames[1][0x18]++  // and the next
	c.frames[2][0x100]++ // no page stands there
	require.Equal(t, "changed", []uint64{0x3010, 0x3018, 0x9000, 0x9ff8}, m.dirty(c, p))
}
