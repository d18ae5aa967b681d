package profiler

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// openPath returns a session for whole paths: each core counts as idle, and only the budget limits timing.
func openPath(t testing.TB) bench {
	t.Helper()
	b := openBench(t)
	b.opts.Precision, b.opts.Budget = 0.005, 1
	b.opts.Mode, b.opts.FrontEnd, b.opts.Clock = Unroll, OpCache, TSCClock
	timer := b.timer
	require.NoError(t, b.chooseTimer())
	b.timer = timer // which is not calibrated
	return b
}

// walk takes a block through the whole path. bbprof must not fail on any block.
func (b bench) walk(code []byte) Result {
	b.t.Helper()
	return b.walkIn(code, Setup{})
}

// walkIn is walk in a set-up.
func (b bench) walkIn(code []byte, setup Setup) Result {
	b.t.Helper()
	r, err := b.serve(context.Background(), Block{Code: code, Setup: setup})
	if err != nil {
		b.t.Fatalf("%x in %+v: %v", code, setup, err)
	}
	if r.Status == Failed {
		b.t.Errorf("%x in %+v: %s", code, setup, r.Failure)
	}
	return r
}

// randomSetup returns a random valid set-up.
func randomSetup(rng *rand.Rand) Setup {
	coin := func() bool { return rng.IntN(2) == 0 }
	s := Setup{Frames: rng.IntN(layout.MaxFrames + 1), NoFTZ: coin(), NoMapping: rng.IntN(8) == 0, FrontEnd: FrontEnds()[rng.IntN(2)]}
	if coin() {
		offset := rng.IntN(layout.PageSize)
		s.CodeOffset = &offset
	}
	if coin() {
		short := 1 + rng.IntN(200)
		s.Unroll = &unroll.Factors{Short: short, Long: short + 1 + rng.IntN(2000)}
	}
	if coin() {
		init := initial.States()[rng.IntN(len(initial.States()))]
		for range rng.IntN(8) {
			init.GPR[rng.IntN(len(init.GPR))] = hostile.Interesting(rng)
		}
		if coin() {
			init.Fill = hostile.Interesting(rng)
		}
		s.Init = &init
	}
	for _, reason := range verdict.Reasons() {
		if coin() {
			s.Tolerate = append(s.Tolerate, reason)
		}
	}
	return s
}

// belongings holds the resources that a process can leak.
type belongings struct {
	files, threads, children int
	heap, resident           int // bytes
}

func owned(t testing.TB) (o belongings) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	o.files = len(fds)
	o.children = len(children())
	tasks, _ := os.ReadDir("/proc/self/task")
	o.threads = len(tasks)
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	o.heap = int(m.HeapAlloc)
	statm, _ := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.Atoi(f[1])
		o.resident = pages * os.Getpagesize()
	}
	return o
}

// children lists the process IDs of this process's children.
func children() (pids []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks { // a child is listed with the thread that forked it
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, field := range strings.Fields(string(list)) {
			pid, _ := strconv.Atoi(field)
			pids = append(pids, pid)
		}
	}
	return pids
}

// mustBeFlat compares the present resources with earlier ones.
func mustBeFlat(t testing.TB, before, now belongings) {
	t.Helper()
	// What Go's runtime keeps for itself; it starts another thread where one that waits for the
	// kernel does not get its CPU back at once.
	const slack, threads = 8 << 20, 40
	t.Logf("before %+v, now %+v", before, now)
	if now.files != before.files || now.children != before.children || now.threads > before.threads+threads ||
		now.heap > before.heap+slack || now.resident > before.resident+2*slack {
		t.Errorf("something leaks: before %+v, now %+v", before, now)
	}
}

// TestWholePath: of random bytes, valid sequences and mutated blocks none fails, leaks or reaches the kernel.
func TestWholePath(t *testing.T) {
	b := openPath(t)
	trace := traceCalls(t)
	own := ownBlocks(t)
	rng := hostile.Seeded(t)
	outcomes := map[verdict.Reason]int{}
	b.discard() // the next child is launched before the kernel's eyes
	b.walk([]byte{0x90})
	before := owned(t)
	families := []struct {
		name  string
		count int
		next  func() []byte
	}{
		{"random bytes", hostile.Scaled(1000, 200_000), func() []byte { return hostile.RandomBytes(rng) }},
		{"valid sequences", hostile.Scaled(300, 100_000), func() []byte { return hostile.ValidBlock(rng) }},
		{"mutated blocks", hostile.Scaled(300, 20_000), func() []byte { return hostile.Mutated(rng, own[rng.IntN(len(own))].code) }},
	}
	for _, f := range families {
		began, slowest, slow := time.Now(), time.Duration(0), []byte(nil)
		for i := range f.count {
			b.opts.Mode, b.opts.FrontEnd, b.opts.Budget = Unroll, OpCache, 1
			if i%20 == 0 { // all the way
				b.opts.Mode, b.opts.Budget = Modes()[rng.IntN(3)], 20*time.Millisecond
				if b.opts.Mode == Unroll {
					b.opts.FrontEnd = Decode
				}
			}
			code, setup := f.next(), Setup{}
			if i%10 == 5 {
				setup = randomSetup(rng)
			}
			start := time.Now()
			outcomes[b.walkIn(code, setup).Reason]++
			if d := time.Since(start); d > slowest {
				slowest, slow = d, code
			}
		}
		t.Logf("%d %s in %v; the slowest took %v: %x", f.count, f.name, time.Since(began).Round(time.Millisecond), slowest.Round(time.Millisecond), slow)
		if slowest > 30*time.Second {
			t.Errorf("%x took %v", slow, slowest)
		}
	}
	mustBeFlat(t, before, owned(t))
	t.Log(outcomes)
	trace.judge(t)
}

// FuzzProfile is the same, guided by coverage.
func FuzzProfile(f *testing.F) {
	for _, seed := range []string{"4801c0", "488b03", "f3aa", "0f05", "9d", "d9f4", "0fae13", "c5fc58c0", "62f17c4858c0", "48b80000f0000060000048890000"} {
		code := require.Get(hex.DecodeString(seed))(f)
		f.Add(code)
	}
	requests := make(chan []byte)
	failures := make(chan string)
	started := make(chan bench, 1)
	go func() { // owns the child; it ends with the process
		defer close(started) // where there can be none
		b := openPath(f)
		started <- b
		for code := range requests {
			r, err := b.serve(context.Background(), Block{Code: code})
			if err != nil {
				r.Failure = err.Error()
			}
			failures <- r.Failure
		}
	}()
	if _, ok := <-started; !ok {
		return
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > 256 {
			return
		}
		requests <- code
		require.Equal(t, fmt.Sprintf("%x", code), "", <-failures)
	})
}
