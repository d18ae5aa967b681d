package tracee

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/require"
)

// TestMain runs this binary as the monitor of a child if a test requests it.
func TestMain(m *testing.M) {
	if how := os.Getenv("BBPROF_TEST_MONITOR"); how != "" {
		monitor(how)
		return
	}
	os.Exit(m.Run())
}

// limitOfLists is several times what the lists of a test monitor need.
const limitOfLists = 30 * time.Millisecond

// monitor launches a child, prints its number, and waits to be killed with the child running or stopped.
func monitor(how string) {
	runtime.LockOSThread()
	c, err := Launch(0, fsBase, gsBase)
	if err != nil {
		fmt.Println("launch:", err)
		return
	}
	fmt.Println(c.pid)
	switch how {
	case "running":
		place(c, spin)
		c.Do([]Op{Run(entry, 1)}, time.Hour)
	case "lists":
		place(c, iterations(10_000_000))
		for err == nil {
			_, err = c.Do([]Op{Run(entry, 1)}, limitOfLists)
		}
		fmt.Println(err)
	}
	time.Sleep(time.Hour)
}

// However the monitor ends, the child ends too: nobody else would end it.
func TestChildDiesWithTheMonitor(t *testing.T) {
	launch(t).Close() // or skip
	for _, how := range []string{"running", "stopped"} {
		cmd, _, pid := startMonitor(t, how)
		if !running(pid) {
			t.Errorf("%s: there is no child %d to begin with", how, pid)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if !ends(pid) {
			unix.Kill(pid, unix.SIGKILL)
			t.Errorf("%s: child %d outlives its monitor", how, pid)
		}
	}
}

// startMonitor starts a monitor, and returns what it says and its child's number.
func startMonitor(t *testing.T, how string) (cmd *exec.Cmd, says *bufio.Reader, child int) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BBPROF_TEST_MONITOR="+how)
	says = bufio.NewReader(require.Get(cmd.StdoutPipe())(t))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	require.Get(fmt.Fscanln(says, &child))(t)
	return cmd, says, child
}

// ends waits until a process has ended.
func ends(pid int) bool {
	for end := time.Now().Add(generous); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// running reports whether a process exists and is not a zombie: in a container, nobody may reap orphans.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// belongings counts the monitor's descriptors, mappings and children.
func belongings(t *testing.T) (have [3]int) {
	t.Helper()
	maps := require.Get(os.ReadFile("/proc/self/maps"))(t)
	lists := require.Get(filepath.Glob("/proc/self/task/*/children"))(t) // a child is listed with the thread that forked it
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		have[2] += len(strings.Fields(string(text)))
	}
	have[0], have[1] = len(descriptorsOf(t, os.Getpid())), strings.Count(string(maps), "bbprof-shared")
	return have
}

func TestNothingIsLeftBehind(t *testing.T) {
	launch(t).Close()
	before := belongings(t)
	for i := range 60 {
		c := require.Get(Launch(0, fsBase, gsBase))(t)
		pid := c.pid
		switch i % 4 { // the child's state when closed
		case 1:
			c.Do(nil, generous)
		case 2:
			place(c, spin)
			c.Do([]Op{Run(entry, 1)}, time.Microsecond)
		case 3:
			unix.Kill(pid, unix.SIGKILL)
		}
		c.Close()
		if unix.Kill(pid, 0) != unix.ESRCH {
			t.Fatalf("child %d is still there", pid)
		}
		c.Close() // a second Close does nothing
		if i < 4 || i == 59 {
			require.Equal(t, fmt.Sprintf("launch %d", i), before, belongings(t))
		}
	}
}

func descriptorsOf(t *testing.T, pid int) []os.DirEntry {
	t.Helper()
	return require.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
}

// TestChildHoldsOnlyTheOwnRegion checks each mapping in /proc/PID/maps, and that a descriptor that the monitor leaves
// open across exec does not reach the child.
func TestChildHoldsOnlyTheOwnRegion(t *testing.T) {
	fd := require.Get(unix.Dup(2))(t) // not close-on-exec
	defer unix.Close(fd)
	c := launch(t)
	mustHold(t, c, measuringSide)
	try(t, c, nil)
	mustHold(t, c, dryRunSide)
	try(t, c, nil, OpenCounter(0)[0])
	mustHold(t, c, countingSide)
	mustServe(t, c)
	mustHold(t, c, measuringSide)
	require.Equal(t, "descriptors of the child", 0, len(descriptorsOf(t, c.pid)))
	none, own := "0000000000000000", ptracethread.Status("self", "CapEff")
	var may uint64
	fmt.Sscanf(own, "%x", &may)
	pageZero := fmt.Sprintf("%016x", may&(1<<unix.CAP_SYS_RAWIO)) // at most
	for field, want := range map[string]string{
		"Seccomp": "2", "NoNewPrivs": "1",
		"CapInh": none, "CapAmb": none, "CapEff": pageZero, "CapPrm": pageZero,
	} {
		require.Equal(t, field, want, ptracethread.Status(strconv.Itoa(c.pid), field))
	}
	// Seccomp disabled it before Linux 5.16, where a child ran unlike its monitor.
	require.Equal(t, "store bypass", ptracethread.Status("self", "Speculation_Store_Bypass"), c.SpeculativeStoreBypass)
}

var (
	measuringSide = side("rw-s", "r-xs", "---s")
	dryRunSide    = side("---s", "---s", "---s")
	countingSide  = side("---s", "---s", "rw-s")
)

// side lists the child's mappings, as /proc/PID/maps shows them, by the rights of three.
func side(log, code, loop string) map[string]bool {
	holds := map[string]bool{}
	for _, m := range []struct {
		from, to uint64
		rights   string
	}{
		{layout.Stub, layout.Stub + layout.PageSize, "r-xp"}, {layout.Frames, layout.Frames + layout.FramesSize, "rw-s"},
		{layout.DryRunOps, layout.End, "r-xs"},
		{layout.Log, layout.Code, log}, {layout.Code, layout.CodeEnd, code}, {layout.DryRunLoop, layout.DryRunOps, loop},
	} {
		holds[fmt.Sprintf("%x-%x %s", m.from, m.to, m.rights)] = true
	}
	return holds
}

// mustHold checks that the child has only these mappings. The kernel joins neighbours with equal permissions.
func mustHold(t *testing.T, c *Tracee, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for line := range strings.Lines(mappings(t, c)) {
		if f := strings.Fields(line); f[len(f)-1] != "[vsyscall]" { // the kernel's own, in every process
			got[f[0]+" "+f[1]] = true
		}
	}
	require.Equal(t, "mappings", want, got)
}

// TestWindowOverTheStack: inherited mappings may occupy the window's place, as the stack does in one launch of a
// thousand.
func TestWindowOverTheStack(t *testing.T) {
	runtime.LockOSThread()        // and never unlocked: the thread ends, with its personality
	const noRandomize = 0x0040000 // ADDR_NO_RANDOMIZE (personality.h)
	if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, noRandomize, 0, 0); errno != 0 {
		require.Skip(t, require.Kernel, "personality: %v", errno)
	}
	maps, err := exec.Command("cat", "/proc/self/maps").Output() // without randomisation, every process has its stack there
	found := regexp.MustCompile(`(?m)^([0-9a-f]+)-.* \[stack\]$`).FindSubmatch(maps)
	if err != nil || found == nil {
		require.Skip(t, require.Kernel, "no stack in /proc/self/maps: %v", err)
	}
	stack := require.Get(strconv.ParseUint(string(found[1]), 16, 64))(t)
	c, err := Launch(stack+layout.PageSize-layout.WindowSize, fsBase, gsBase) // the window's last page
	require.Measure(t, err)
	defer c.Close()
	mustServe(t, c)
}

// Signals from outside are dropped, and the child continues where it was.
func TestSignalsFromOutside(t *testing.T) {
	c := launch(t)
	place(c, func(e *asm.Emitter) { // runs until the monitor sets the slot, then reports it
		e.MovImm(asm.RDX, 12345)
		loop := e.PC()
		e.Load(asm.RAX, layout.SlotSamples)
		e.AddImm8(asm.RAX, -1)
		f := e.ForwardJz()
		e.Jmp(loop)
		e.Bind(f)
		e.Store(layout.SlotPolls, asm.RDX)
	})
	pid := c.pid
	released := make(chan struct{})
	go func() {
		defer close(released)
		for range 5 {
			for _, s := range []unix.Signal{
				unix.SIGUSR1, unix.SIGSTOP, unix.SIGCONT, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGALRM, unix.SIGURG,
				unix.SIGSEGV, unix.SIGTRAP, unix.SIGBUS, unix.SIGILL, unix.SIGFPE, unix.SIGSYS, // signals that blocks raise
			} {
				unix.Kill(pid, s)
				unix.Tgkill(pid, pid, s)
				time.Sleep(50 * time.Microsecond)
			}
		}
		c.SetWord(layout.SlotSamples, 1)
	}()
	stop := do(t, c, Run(entry, 1))
	<-released
	if !stop.Done || c.Word(layout.SlotPolls) != 12345 {
		t.Errorf("%+v, slot %d", stop, c.Word(layout.SlotPolls))
	}
	for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGSTOP, unix.SIGTRAP, unix.SIGSEGV} { // to a stopped child
		unix.Kill(pid, s)
		mustServe(t, c)
	}
}

// Signals that arrive during the child's set-up are dropped, too.
func TestSignalsDuringLaunch(t *testing.T) {
	launch(t).Close() // or skip
	c := &Tracee{stub: buildStub(0, 0), pidfd: -1}
	defer c.Close()
	require.NoError(t, c.shared.create())
	require.NoError(t, c.exec())
	for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGTRAP, unix.SIGSEGV, unix.SIGSTOP} {
		unix.Kill(c.pid, s)
		if pid, err := c.inject(unix.SYS_GETPID); err != nil || pid != uint64(c.pid) {
			t.Errorf("%v: getpid says %d, %v; want %d", s, pid, err, c.pid)
		}
	}
	if _, err := c.inject(unix.SYS_CLOSE, 1000); err != unix.EBADF {
		t.Errorf("closing what is not open: %v", err)
	}
}

// TestSideBySide: launches from several threads do not disturb each other, whichever descriptors the process opens
// and closes meanwhile.
func TestSideBySide(t *testing.T) {
	launch(t).Close() // or skip
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			var held [20]*os.File
			for i := range held {
				held[i], _ = os.Open(os.DevNull)
			}
			for _, f := range held {
				f.Close()
			}
		}
	}()
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			runtime.LockOSThread()
			for range 30 {
				if c, err := Launch(0, fsBase, gsBase); err != nil {
					t.Error(err)
				} else {
					c.Close()
				}
			}
		})
	}
	threads.Wait()
}

// Exhaustible resources are limited, mostly to nothing, but a block gets its pages.
func TestLimits(t *testing.T) {
	c := launch(t)
	for which, most := range limits {
		var got unix.Rlimit
		if err := unix.Prlimit(c.pid, which, nil, &got); err != nil || got.Cur != most || got.Max != most {
			t.Errorf("resource %d: %+v, %v; want %d", which, got, err, most)
		}
	}
	const pages = 1024
	var ops []Op
	for i := range uint64(pages) {
		ops = append(ops, MapFrame(0x1000_0000+i<<30, 0)) // each with its own page tables
		if len(ops) == layout.MaxOps/2 {
			if stop := do(t, c, ops...); !stop.Done {
				t.Fatalf("page %d: %+v", i, stop)
			}
			ops = nil
		}
	}
}
