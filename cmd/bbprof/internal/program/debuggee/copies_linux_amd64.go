package debuggee

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
)

// copies of a program's code count what runs of it. Each is of a few instructions without a branch between them: it adds their number to a word,
// runs them, and jumps to the copy of what follows, or to an int3 for the tracer to make that copy. Only registers that it puts back are used
// besides, and no flags; what the program sees on its stack are its own addresses.
type copies struct {
	arenas  []*arena
	at      map[uint64]uint64 // an original address → its copy, or 0 if there can be none
	stops   map[uint64]stop   // at an int3
	origins map[uint64]origin // at an instruction in a copy that may fault
	from    []Mapping         // that code was copied from
	doubt   bool              // these may have changed
	called  bool              // the last step was a system call, whose signals come with the next
}

type stop struct {
	orig uint64 // where the program is
	pass bool   // its copy exists: the tracer asked for a stop
}

type origin struct {
	orig uint64
	left uint64 // instructions counted from it on
}

// An arena is memory in the program near the code that is copied into it, for addresses relative to rip.
type arena struct {
	base, dispatch, miss uint64
	free, end            uint64            // of its code, from below, and its stubs, from above
	stubs                map[uint64]uint64 // an original address → a jump to its copy
	fresh                []uint64          // original addresses of stubs that are not written yet
}

// An arena begins with words, followed by the table of the targets of indirect branches: by the lowest 16 bits of an address, what it adds up to 0
// with, and its copy.
const (
	wordRCX, wordRDX, wordRAX, wordTarget, wordCopy, wordCount, wordLeft = 0, 8, 16, 24, 32, 40, 48

	tableAt   = pageBytes
	entry     = 16
	codeAt    = tableAt + entry<<16
	arenaSize = 16 << 20
	pageBytes = 4096
	// apart is how far an arena is from the code, since the program's heap and libraries grow beside that; reach is how far code may be from
	// it: rip-relative operands reach 2 GiB.
	apart, reach, operands = 512 << 20, 3 << 29, 1<<31 - arenaSize
	stubBytes              = 5 // jmp rel32
	longest                = 1024
	// stopEach is after how many copies the tracer looks at signals and the time: some 10 ms.
	stopEach = 1 << 20
)

// RunCopied runs a thread in copies of its code, while all others are stopped and its signals wait, up to an instruction that only [Process.Step]
// can execute, a return to the address leave, or stopEach copies. It returns the number of instructions; 0 if there is no copy.
func (p *Process) RunCopied(id int, leave uint64) (n uint64, err error) {
	t, c := p.tasks[id], &p.copies
	if t == nil || p.end != nil || t.deliver != 0 || c.called {
		return 0, nil
	}
	now, err := p.Regs(id)
	if at, known := c.at[now.RIP]; known && at == 0 || err != nil {
		return 0, err
	}
	regs, err := registers(id)
	if err != nil {
		return 0, err
	}
	mask, err := maskSignals(id)
	if err != nil {
		return 0, err
	}
	defer func() {
		if t.at = nil; p.end == nil {
			err = errors.Join(err, sigmask(id, unix.PTRACE_SETSIGMASK, &mask), setRegisters(id, regs))
		}
	}()
	if err := p.stillSame(t); err != nil {
		return 0, err
	}
	if c.at == nil {
		c.at, c.stops, c.origins = map[uint64]uint64{}, map[uint64]stop{}, map[uint64]origin{}
	}
	at, err := p.copyOf(t, regs.Rip)
	for at != 0 && err == nil {
		for _, a := range c.arenas {
			err = errors.Join(err, poke(id, a.base+wordLeft, word(stopEach)...), poke(id, a.base+wordCount, word(0)...))
		}
		in := regs
		in.Rip = at
		if err = errors.Join(err, setRegisters(id, in)); err != nil {
			break
		}
		var signal unix.Signal
		if signal, err = p.runCopies(t); err != nil {
			break
		}
		if regs, err = registers(id); err != nil {
			break
		}
		for _, a := range c.arenas {
			ran, err := p.Word(a.base + wordCount)
			if err != nil {
				return n, err
			}
			n += ran
		}
		if signal != unix.SIGTRAP {
			o, ok := c.origins[regs.Rip]
			if !ok {
				return n, ErrCopies
			}
			t.deliver, regs.Rip = signal, o.orig
			return n - o.left, nil
		}
		var stop stop
		var missed *arena
		stop, missed, err = p.stopped(regs.Rip - 1)
		regs.Rip = stop.orig
		if err != nil || stop.pass || missed != nil && stop.orig == leave {
			return n, err
		}
		if at, err = p.copyOf(t, stop.orig); missed != nil && at != 0 && err == nil {
			err = poke(id, missed.base+tableAt+stop.orig&0xffff*entry, append(word(-stop.orig), word(at)...)...)
		}
	}
	return n, err
}

// runCopies runs a thread to the next int3 or fault.
func (p *Process) runCopies(t *task) (unix.Signal, error) {
	for {
		p.restart(t, unix.PTRACE_CONT)
		status, err := p.await(t)
		if err != nil {
			return 0, err
		}
		if p.end != nil || !status.Stopped() || status.TrapCause() > 0 {
			if p.end == nil {
				p.dispatch(t.id, status)
			}
			return 0, ErrCopies
		}
		if t.running = false; status.StopSignal() != unix.SIGSTOP { // which nothing masks
			return status.StopSignal(), nil
		}
	}
}

// stopped tells where the program is that stopped at an int3, and the arena in whose table that was missing, if it was.
func (p *Process) stopped(at uint64) (stop, *arena, error) {
	for _, a := range p.copies.arenas {
		if at == a.miss {
			target, err := p.Word(a.base + wordTarget)
			return stop{orig: target}, a, err
		}
	}
	s, ok := p.copies.stops[at]
	if !ok {
		return s, nil, ErrCopies
	}
	return s, nil, nil
}

// maskSignals has all signals wait but those that instructions raise, and returns those that waited before.
func maskSignals(id int) (before uint64, err error) {
	if err := sigmask(id, unix.PTRACE_GETSIGMASK, &before); err != nil {
		return 0, err
	}
	all := uint64(math.MaxUint64)
	for _, raised := range []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS} {
		all &^= 1 << (raised - 1)
	}
	all |= before
	return before, sigmask(id, unix.PTRACE_SETSIGMASK, &all)
}

func sigmask(id int, request uintptr, mask *uint64) error {
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, request, uintptr(id), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0); e != 0 {
		return fault(e, "masking signals")
	}
	return nil
}

// stillSame drops the copies if the program has changed where code is since they were made.
func (p *Process) stillSame(t *task) error {
	if !p.copies.doubt {
		return nil
	}
	p.copies.doubt = false
	now, err := p.Maps()
	if err != nil {
		return err
	}
	for _, m := range p.copies.from {
		if !slices.Contains(now, m) {
			return p.dropCopies(t)
		}
	}
	return nil
}

// DropCopies ends the copies of a thread's code: between calls anything may change.
func (p *Process) DropCopies(id int) error {
	if t := p.tasks[id]; t != nil && p.end == nil {
		return p.dropCopies(t)
	}
	return nil
}

func (p *Process) dropCopies(t *task) error {
	old := p.copies.arenas
	p.copies = copies{}
	for _, a := range old {
		if _, err := p.ask(t, unix.SYS_MUNMAP, a.base, arenaSize); err != nil {
			return err
		}
	}
	return nil
}

// copyOf returns the copy of the code at an address, after making it, or 0 if it is of no file, or only a step can execute its first instruction.
func (p *Process) copyOf(t *task, orig uint64) (uint64, error) {
	c := &p.copies
	if at, known := c.at[orig]; known {
		return at, nil
	}
	if Find(c.from, orig) == nil {
		now, err := p.Maps()
		if err != nil {
			return 0, err
		}
		m := Find(now, orig)
		if m == nil || m.Writable || m.Shared || !strings.HasPrefix(m.Name, "/") && m.Name != "[vdso]" {
			c.at[orig] = 0 // even if a file is mapped there later
			return 0, nil
		}
		i, _ := slices.BinarySearchFunc(c.from, m.Low, func(m Mapping, low uint64) int { return cmp.Compare(m.Low, low) })
		c.from = slices.Insert(c.from, i, *m)
	}
	a, err := p.arenaFor(t, orig)
	if err != nil {
		return 0, err
	}
	var list []original
	if a != nil {
		var code [256]byte
		list = a.copyable(orig, code[:p.Code(orig, code[:])])
	}
	if len(list) == 0 {
		c.at[orig] = 0
		return 0, nil
	}
	at := a.free
	c.at[orig] = at
	made := c.emit(a, list)
	if err := poke(t.id, at, made...); err != nil {
		return 0, err
	}
	a.free += uint64(len(made))
	for _, a := range c.arenas {
		if stub, ok := a.stubs[orig]; ok && within(stub, at, math.MaxInt32) {
			e := asm.NewEmitter(stub)
			e.Jmp(at)
			if err := poke(t.id, stub, e.Bytes()...); err != nil {
				return 0, err
			}
			delete(c.stops, stub)
		}
	}
	for _, to := range a.fresh {
		c.stops[a.stubs[to]] = stop{orig: to}
		if err := poke(t.id, a.stubs[to], int3); err != nil {
			return 0, err
		}
	}
	a.fresh = a.fresh[:0]
	return at, nil
}

func within(a, b, by uint64) bool { return max(a, b)-min(a, b) < by }

// arenaFor returns an arena near an address, or nil if there is no memory for one, or it is full.
func (p *Process) arenaFor(t *task, orig uint64) (*arena, error) {
	c := &p.copies
	for _, a := range c.arenas {
		if within(a.base, orig, reach) {
			if a.free+longest > a.end-longest { // it is full
				return nil, nil
			}
			return a, nil
		}
	}
	near := orig + apart
	if orig > 2*apart {
		near = orig - apart
	}
	base, err := p.ask(t, unix.SYS_MMAP, near&^(pageBytes-1), arenaSize, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uint64(0), 0)
	if err != nil {
		return nil, err
	}
	if failed := -base; failed < pageBytes { // syscall(2)
		return nil, nil
	}
	if !within(base, orig, reach) {
		_, err := p.ask(t, unix.SYS_MUNMAP, base, arenaSize)
		return nil, err
	}
	a := &arena{base: base, dispatch: base + codeAt, end: base + arenaSize, stubs: map[uint64]uint64{}}
	code := a.dispatcher()
	a.free = a.dispatch + uint64(len(code))
	c.arenas = append(c.arenas, a)
	// All zeros would be the entry of address 0.
	return a, errors.Join(poke(t.id, a.dispatch, code...), poke(t.id, base+tableAt, 1))
}

func word(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
