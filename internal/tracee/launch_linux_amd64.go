package tracee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/sigchld"
	"github.com/bbprof/bbprof/verdict"
)

// Tracee is one child. The zero value holds no child; see Launch.
type Tracee struct {
	mortal sync.Mutex    // guards pid, pidfd and used against Kill and CPUTime, which any goroutine may call
	pid    int           // 0 without a child, or once it is reaped
	pidfd  int           // -1 in these cases, and before Linux 5.2
	used   time.Duration // CPU time when last read

	thread   int           // the monitor's
	before   time.Duration // its CPU time at launch
	launched time.Time

	shared // memory
	stub   stub
	regs   unix.PtraceRegs // initial registers of every run
	dead   *DeadError
	watch  *watchdog

	counters []int // the monitor's descriptors of the events that the child opened

	next      uint64 // the stub's entry for the next list after a dry run, which opens the side for measuring; else 0
	dryRunEnd uint64 // address after its final int3, 0 without a dry run

	// SpeculativeStoreBypass is the child's line in /proc/PID/status: if disabled, store forwarding is slower.
	SpeculativeStoreBypass string
}

// Launch starts a child on the calling thread's CPUs and leaves it stopped, ready for Run. The calling goroutine
// must be locked to its thread. If window is not 0, the child gets one there (see layout.Window). fsBase and
// gsBase are the segment bases of every run until SetBases. The child opens the events of counters in order, and
// maps each at layout.CounterPage. Launch returns a *verdict.HostError if this machine cannot do it, and a
// *DeadError if something kills the child meanwhile.
func Launch(window, fsBase, gsBase uint64, counters ...Counter) (_ *Tracee, err error) {
	t := &Tracee{stub: buildStub(len(counters), window), shared: shared{window: window}, pidfd: -1, thread: unix.Gettid(), launched: time.Now()}
	t.before, _ = cpuClock(t.thread, perThread)
	defer func() {
		if err != nil {
			err = t.orDeath(err)
			t.Close()
		}
	}()
	sigchld.NotOfStops()
	if err := t.create(); err != nil {
		return nil, err
	}
	if err := t.exec(); err != nil {
		return nil, err
	}
	t.watch = newWatchdog(t.CPUTime, t.Kill)
	if err := t.settle(counters); err != nil {
		if host := (*verdict.HostError)(nil); errors.As(err, &host) {
			return nil, host
		}
		return nil, fmt.Errorf("setting up the child: %w", err)
	}
	t.regs = unix.PtraceRegs{
		Eflags: 0x202,                                            // IF and the bit that is always 1
		Cs:     0x33, Ss: 0x2b, Fs_base: fsBase, Gs_base: gsBase, // __USER_CS, __USER_DS
		Orig_rax: ^uint64(0), // not in a system call: nothing to restart
	}
	if err := t.rehearse(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tracee) SetBases(fsBase, gsBase uint64) { t.regs.Fs_base, t.regs.Gs_base = fsBase, gsBase }

func (t *Tracee) exec() error {
	image, err := memfd("bbprof-child")
	if err != nil {
		return err
	}
	defer unix.Close(image)
	if err := ptracethread.CheckParent(); err != nil {
		return err
	}
	if _, err := unix.Write(image, t.stub.elf()); err != nil {
		return fmt.Errorf("writing the child's image: %w", err)
	}
	// In the child the shared memory becomes descriptor 0, the image 1. Another number might be lost before exec:
	// ForkExec may move its own pipe to any number above Files.
	t.pid, err = syscall.ForkExec("/proc/self/fd/1", []string{"bbprof-child"}, &syscall.ProcAttr{
		Dir:   "/",
		Files: []uintptr{uintptr(t.fd), uintptr(image)},
		Sys: &syscall.SysProcAttr{
			Ptrace:    true,
			Setsid:    true, // only the monitor handles Ctrl-C
			Pdeathsig: syscall.SIGKILL,
			PidFD:     &t.pidfd,
		},
	})
	if err != nil {
		return t.notStarted(err)
	}
	status, err := t.wait()
	if err != nil {
		return killedAtStart(err)
	}
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return fmt.Errorf("the child's first stop is %#x, not the one of exec", uint32(status))
	}
	return t.follow()
}

// follow makes the kernel kill the child when the monitor's thread ends, even by SIGKILL.
func (t *Tracee) follow() error {
	if err := unix.PtraceSetOptions(t.pid, unix.PTRACE_O_EXITKILL); err != nil {
		return &verdict.HostError{Missing: "the ptrace option EXITKILL is refused", Remedy: "Linux 3.8 or later is needed", Err: err}
	}
	return nil
}

// settle releases what the child inherited, maps the own region, and installs the filter.
func (t *Tracee) settle(counters []Counter) error {
	for _, do := range []func() error{
		t.unmapAll, // first: the stack may occupy the window's place
		t.mapRegions,
		func() error { return t.openCounters(counters) },
		t.closeAll, t.giveUpPrivileges, t.limit, t.giveUpCapabilities, t.installFilter,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	t.SpeculativeStoreBypass = ptracethread.Status(strconv.Itoa(t.pid), "Speculation_Store_Bypass")
	return nil
}

// unmapAll removes all inherited mappings but the stub.
func (t *Tracee) unmapAll() error {
	for _, op := range UnmapAll(0) {
		_, err := t.inject(unix.SYS_MUNMAP, op.args[:2]...)
		if errors.Is(err, unix.EPERM) {
			return &verdict.HostError{
				Missing: "the kernel seals the vdso into every process (CONFIG_MSEAL_SYSTEM_MAPPINGS), and blocks could touch it",
				Remedy:  "boot with vdso=0, or use a kernel without that option", Err: err,
			}
		}
		if err != nil {
			return settling("unmapping what is not its own", err)
		}
	}
	return nil
}

// mapRegions maps the own region, and the window if any.
func (t *Tracee) mapRegions() error {
	const fixed = unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE
	for _, r := range t.regions() {
		at, err := t.inject(unix.SYS_MMAP, r.addr, r.size, uint64(r.prot), fixed, 0, r.offset)
		if err == nil && at != r.addr { // older kernels ignore the flag
			err = fmt.Errorf("it went to %#x", at)
			return &verdict.HostError{Missing: "the kernel cannot map at a given address and nowhere else", Remedy: "Linux 4.17 or later is needed", Err: err}
		}
		if err != nil {
			return settling("mapping "+r.name, err)
		}
	}
	return nil
}

// rehearse makes the child perform each call that blocks will need, and touch what each run touches. If an
// external filter refuses a call, the host is to blame; later, the refusal could be blamed on a block.
func (t *Tracee) rehearse() error {
	const page = 1 << 28 // free, and above any vm.mmap_min_addr
	type call struct {
		what string
		op   Op
	}
	calls := []call{
		{"mapping a frame", MapFrame(page, 0)},
		{"asking for its context switches", UsageBefore()},
		{"asking for its context switches", UsageAfter()},
	}
	for _, op := range UnmapAll(t.window) {
		calls = append(calls, call{"unmapping what is not its own", op})
	}
	var ops []Op
	for _, c := range calls {
		ops = append(ops, c.op)
	}
	// Otherwise the first windows would fault on pages of the list and of samples. After a fault, store-forwarded
	// loads stay slow for 10 to 20 µs (Redwood Cove).
	for page := uint64(layout.Ops); page < layout.Samples+layout.SamplesSize; page += layout.PageSize {
		ops = append(ops, Touch(page))
	}
	stop, err := t.Do(ops, rehearsalLimit)
	if err != nil {
		return err
	}
	if stop.FailedOp >= 0 { // a call
		return settling(calls[stop.FailedOp].what, unix.Errno(stop.Errno))
	}
	return stop.Completed("a rehearsal of its system calls")
}

// rehearsalLimit far exceeds the time of a few system calls.
const rehearsalLimit = time.Second

// limits are the child's resource limits: 0 for everything it does not need. A killed child writes no core file.
var limits = map[int]uint64{
	unix.RLIMIT_CORE: 0, unix.RLIMIT_DATA: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_LOCKS: 0, unix.RLIMIT_MEMLOCK: 0,
	unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_NICE: 0, unix.RLIMIT_NOFILE: 0, unix.RLIMIT_NPROC: 0, unix.RLIMIT_RTPRIO: 0,
	unix.RLIMIT_STACK: 0,
	// The own region and four times the pages that a block may touch.
	unix.RLIMIT_AS: layout.End - layout.Base + layout.WindowSize + 4*1024*layout.PageSize,
}

func (t *Tracee) limit() error {
	for which, most := range limits {
		if err := unix.Prlimit(t.pid, which, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return settling("limiting its resources", err)
		}
	}
	return nil
}

// giveUpCapabilities drops all of the child's capabilities but the one for mapping page 0. The child keeps the
// monitor's user: otherwise the monitor would need capabilities itself to kill it (kill(2)) or to move it to
// another CPU.
func (t *Tracee) giveUpCapabilities() error {
	const (
		version = unix.LINUX_CAPABILITY_VERSION_3
		keep    = 1 << unix.CAP_SYS_RAWIO // checked by security_mmap_addr
	)
	header := unix.CapUserHeader{Version: version, Pid: int32(t.pid)}
	var has [2]unix.CapUserData // capabilities 0 to 31, and the others
	if err := unix.Capget(&header, &has[0]); err != nil {
		return settling("asking for its capabilities", err)
	}
	area := t.Samples()
	clear(area[:32])
	binary.LittleEndian.PutUint32(area[0:], version)
	binary.LittleEndian.PutUint32(area[8:], has[0].Effective&keep)
	binary.LittleEndian.PutUint32(area[12:], has[0].Permitted&keep)
	return t.set("giving up its capabilities", unix.SYS_CAPSET, layout.Samples, layout.Samples+8)
}

// giveUpPrivileges lets an unprivileged process install a filter (seccomp(2)).
func (t *Tracee) giveUpPrivileges() error {
	return t.set("giving up new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
}

// closeAll closes the child's descriptors.
func (t *Tracee) closeAll() error {
	const what = "closing its descriptors"
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.pid))
	if err != nil {
		return settling(what, err)
	}
	for _, f := range open {
		fd, err := strconv.ParseUint(f.Name(), 10, 32)
		if err == nil {
			err = t.set(what, unix.SYS_CLOSE, fd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// set makes the child execute a system call that sets it up.
func (t *Tracee) set(what string, nr uint64, args ...uint64) error {
	if _, err := t.inject(nr, args...); err != nil {
		return settling(what, err)
	}
	return nil
}

// settling wraps an error of a set-up step. A refusal there is bbprof's as a whole, by an external filter; an
// exhausted resource affects everyone.
func settling(what string, err error) error {
	switch {
	case isRefusal(err):
		return &verdict.HostError{
			Missing: "a system call that sets up the child is refused (" + what + ")",
			Remedy:  "run with a seccomp profile that allows it (docker: --security-opt seccomp=unconfined), or on a newer kernel", Err: err,
		}
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return exhausted("memory for the child", err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// installFilter writes the filter and its struct sock_fprog into the sample area and makes the child install it.
// SPEC_ALLOW: before Linux 5.16 a filter otherwise disabled speculative store bypass, which slows every load after
// a store.
func (t *Tracee) installFilter() error {
	prog := filter(t.stub.gate, len(t.counters), t.window)
	area := t.Samples()
	const header = 16 // struct sock_fprog: u16 len, padding, pointer
	binary.LittleEndian.PutUint64(area[0:], uint64(len(prog)))
	binary.LittleEndian.PutUint64(area[8:], layout.Samples+header)
	for i, in := range prog {
		b := area[header+8*i:]
		binary.LittleEndian.PutUint16(b, in.code)
		b[2], b[3] = in.jt, in.jf
		binary.LittleEndian.PutUint32(b[4:], in.k)
	}
	_, err := t.inject(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, layout.Samples)
	if errors.Is(err, unix.EINVAL) { // the flag came with Linux 4.17
		_, err = t.inject(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, layout.Samples)
	}
	if err != nil {
		return &verdict.HostError{
			Missing: "seccomp filters, without which a block could call the kernel",
			Remedy:  "use a kernel with CONFIG_SECCOMP_FILTER, and let a container's seccomp profile allow seccomp (" + unprofiled + ")", Err: err,
		}
	}
	return nil
}

// inject makes the stopped child execute a system call through the set-up gate, which the filter then closes.
func (t *Tracee) inject(nr uint64, args ...uint64) (uint64, error) {
	var a [6]uint64
	copy(a[:], args)
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
		return 0, fmt.Errorf("reading registers: %w", err)
	}
	regs.Rip, regs.Rax, regs.Orig_rax = t.stub.inject, nr, ^uint64(0)
	regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9 = a[0], a[1], a[2], a[3], a[4], a[5]
	if err := unix.PtraceSetRegs(t.pid, &regs); err != nil {
		return 0, fmt.Errorf("writing registers: %w", err)
	}
	for {
		if err := unix.PtraceCont(t.pid, 0); err != nil {
			return 0, fmt.Errorf("continuing: %w", err)
		}
		status, err := t.wait()
		if err != nil {
			return 0, err
		}
		if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
			return 0, fmt.Errorf("reading registers: %w", err)
		}
		if status.StopSignal() == unix.SIGTRAP && regs.Rip == t.stub.inject+3 { // syscall is 2 bytes, int3 1
			break
		}
		si, err := getSiginfo(t.pid)
		if err != nil {
			return 0, err
		}
		if si.code > 0 { // otherwise sent by a process, and dropped as in Do
			return 0, fmt.Errorf("stopped by %v at %#x during system call %d", status.StopSignal(), regs.Rip, nr)
		}
	}
	if e := int64(regs.Rax); e < 0 && e > -4096 { // MAX_ERRNO, linux/err.h
		return 0, unix.Errno(-e)
	}
	return regs.Rax, nil
}

// Bind moves the child to a CPU. The caller's thread should move too.
func (t *Tracee) Bind(cpu int) error {
	if t.pid == 0 {
		return t.dead // process 0 would mean the monitor itself
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(t.pid, &set); err != nil {
		return fmt.Errorf("binding the child to CPU %d: %w", cpu, err)
	}
	return nil
}

// Close kills and reaps the child and releases its resources. It may be called twice and at any time.
func (t *Tracee) Close() {
	if t.watch != nil {
		t.watch.stop()
	}
	t.Kill()
	for t.pid > 0 {
		t.wait()
	}
	for _, fd := range t.counters {
		unix.Close(fd)
	}
	t.counters = nil
	t.shared.close()
}

// Kill ends the child from any goroutine; the goroutine that waits for it gets a *DeadError. If the child has
// ended, Kill does nothing: its numbers may have been reused.
func (t *Tracee) Kill() {
	t.mortal.Lock()
	defer t.mortal.Unlock()
	if t.pidfd >= 0 {
		if err := unix.PidfdSendSignal(t.pidfd, unix.SIGKILL, nil, 0); err == nil || errors.Is(err, unix.ESRCH) {
			return
		}
	}
	if t.pid > 0 { // before Linux 5.2, or under an older filter
		unix.Kill(t.pid, unix.SIGKILL)
	}
}

// reaped clears the numbers of a child that was waited for.
func (t *Tracee) reaped() {
	t.mortal.Lock()
	defer t.mortal.Unlock()
	t.pid = 0
	if t.pidfd >= 0 {
		unix.Close(t.pidfd)
		t.pidfd = -1
	}
}

// siginfo is the start of siginfo_t for faults (asm-generic/siginfo.h).
type siginfo struct {
	signo, errno, code, _ int32
	addr                  uint64
	_                     [104]byte
}

func getSiginfo(pid int) (siginfo, error) {
	var si siginfo
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(pid), 0, uintptr(unsafe.Pointer(&si)), 0, 0)
	if e != 0 {
		return si, fmt.Errorf("reading siginfo: %w", e)
	}
	return si, nil
}
