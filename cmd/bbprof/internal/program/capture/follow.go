package capture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

const (
	pageSize = 4096
	// maxPages limits the pages that a visit may touch to the frames there are to measure it on.
	maxPages = layout.MaxFrames
	// userEnd is the end of user addresses with four levels of page tables.
	userEnd = 1 << 47
)

type follower struct {
	*session
	*debuggee.Process // the program, or a copy of it
	w                 *site
	thread            int
	maps              []debuggee.Mapping
	pages             map[uint64]*touchedPage
	executed          int // instructions
}

type touchedPage struct {
	data     [pageSize]byte // before the block
	writable bool
	written  bool
}

// follow executes a block at whose first instruction a thread of a process stands, and records the states before and after. If it
// returns neither visit nor error, the string says why.
func (k *session) follow(p *debuggee.Process, w *site, thread int) (*Visit, string, error) {
	f := follower{session: k, Process: p, w: w, thread: thread, pages: map[uint64]*touchedPage{}}
	code := make([]byte, len(w.Code))
	if p.Code(w.base, code) < len(code) || string(code) != string(w.Code) {
		return nil, "the program has changed the block", k.pass(w, thread)
	}
	var err error
	if f.maps, err = p.Maps(); err != nil {
		return nil, "", err
	}
	start, err := p.State(thread)
	if err != nil {
		return nil, "", err
	}
	if why, err := f.steps(start); why != "" || err != nil {
		return nil, why, err
	}
	end, err := p.State(thread)
	if err != nil {
		return nil, "", err
	}
	if branch, ok := asm.TrailingBranch(w.insts); w.Entry == nil && ok && branch.ToStart() {
		f.readBeside()
	}
	v := &Visit{Steps: f.executed, Before: k.layout.captured(start), After: k.layout.captured(end)}
	for _, addr := range slices.Sorted(maps.Keys(f.pages)) {
		t := f.pages[addr]
		v.Before.Pages = append(v.Before.Pages, initial.Page{Address: addr, Writable: t.writable, Data: t.data})
		if !t.written {
			continue
		}
		now := initial.Page{Address: addr, Writable: t.writable}
		if err := p.Page(addr, &now.Data); err != nil {
			return nil, "", err
		}
		if now.Data != t.data {
			v.After.Pages = append(v.After.Pages, now)
		}
	}
	return v, "", nil
}

// mostSteps bounds the instructions of a loop from a visit to its end: a step takes some 10 µs.
const mostSteps = 50_000

// steps executes the block, or the loop until control leaves it; why says what makes the visit invalid.
func (f *follower) steps(start debuggee.State) (why string, err error) {
	m := f.layout.machine(start)
	_, branches := asm.TrailingBranch(f.w.insts)
	i := f.w.first
	for n := 1; ; n++ {
		in := &f.w.insts[i]
		step, why, err := f.one(i, &m)
		if why != "" || err != nil {
			return why, err
		}
		switch {
		case f.w.Entry != nil:
			inside := false
			if i, inside = f.w.instAt(step.Regs.RIP); !inside {
				return "", nil
			}
			if n == mostSteps {
				return fmt.Sprintf("the loop goes on for more than %d instructions", mostSteps), nil
			}
		case step.Regs.RIP != f.w.after(in) && !(branches && i == len(f.w.insts)-1):
			return "control left it", nil
		default:
			if i++; i == len(f.w.insts) {
				return "", nil
			}
		}
		if m, err = f.nextMachine(m, &f.w.insts[i]); err != nil {
			return "", err
		}
	}
}

func (w *site) instAt(addr uint64) (i int, ok bool) {
	return slices.BinarySearchFunc(w.insts, addr, func(in asm.Inst, addr uint64) int { return cmp.Compare(w.base+uint64(in.Offset), addr) })
}

// one executes one instruction, and takes the pages that it touches before.
func (f *follower) one(i int, m *asm.Machine) (step debuggee.Step, why string, err error) {
	in := &f.w.insts[i]
	const counter = 1 // rcx, by hardware number
	rounds := m.GPR[counter]
	why = f.touchAll(i, m, func(mem asm.Mem) uint64 {
		if mem.Repeat == asm.Rep {
			return rounds
		}
		return 1 // the result of the comparison is not known yet
	})
	if why != "" {
		_, err := f.w.execute(f.Process, in, f.thread)
		return step, why, err
	}
	step, err = f.w.execute(f.Process, in, f.thread)
	switch {
	case err != nil:
		return step, "", err
	case step.Gone:
		return step, "the program, or the thread, ended in it", nil
	case !step.Executed:
		return step, "a signal came", nil
	}
	f.executed++
	if in.Compares() {
		after, err := f.Regs(f.thread)
		if err != nil {
			return step, "", err
		}
		if why := f.touchAll(i, m, func(asm.Mem) uint64 { return rounds - after.GPR[counter] }); why != "" {
			return step, why, nil
		}
	}
	switch in.Mnemonic {
	case "std":
		m.Down = true
	case "cld":
		m.Down = false
	}
	return step, "", nil
}

// nextMachine returns the state after a step, as far as the next instruction's accesses depend on it.
func (f *follower) nextMachine(m asm.Machine, in *asm.Inst) (asm.Machine, error) {
	if in.NeedsVectors() {
		s, err := f.State(f.thread)
		return f.layout.machine(s), err
	}
	var err error
	m.Regs, err = f.Regs(f.thread)
	return m, err
}

// touchAll reads the pages that an instruction accesses; rounds gives the iterations of a rep prefix.
func (f *follower) touchAll(inst int, m *asm.Machine, rounds func(asm.Mem) uint64) (why string) {
	f.w.insts[inst].AccessesFrom(m, func(a asm.Access, mem asm.Mem, _ bool) {
		if mem.Repeat != asm.Once {
			n := rounds(mem)
			if mem.AddrSize == 32 {
				n = uint64(uint32(n))
			}
			n = min(n, maxPages*pageSize+1) // more is too many anyway
			if m.Down {
				a.Addr -= (n - 1) * uint64(a.Elem)
			}
			a.Width = int(n) * a.Elem
		}
		why = cmp.Or(why, f.touch(a, mem))
	})
	return why
}

func (f *follower) touch(a asm.Access, mem asm.Mem) (why string) {
	last := a.Addr + uint64(max(a.Width, 1)) - 1
	for addr := a.Addr &^ (pageSize - 1); ; addr += pageSize {
		t := f.pages[addr]
		if t == nil {
			t = &touchedPage{}
			if why := f.read(addr, t); why != "" && mem.Mask == asm.NoRegister {
				return why
			} else if why == "" {
				if len(f.pages) == maxPages {
					return fmt.Sprintf("it touches more than %d pages", maxPages)
				}
				f.pages[addr] = t
			}
		}
		t.written = t.written || a.Write
		if a.Write && addr < f.w.base+uint64(len(f.w.Code)) && f.w.base < addr+pageSize {
			return "it writes to the page that it stands on"
		}
		if addr == last&^(pageSize-1) {
			return ""
		}
	}
}

// readBeside reads the pages before and after each touched page: further iterations of a loop walk there.
func (f *follower) readBeside() {
	for _, addr := range slices.Sorted(maps.Keys(f.pages)) {
		for _, beside := range []uint64{addr - pageSize, addr + pageSize} {
			t := &touchedPage{}
			if f.pages[beside] == nil && len(f.pages) < maxPages && f.read(beside, t) == "" {
				f.pages[beside] = t
			}
		}
	}
}

func (f *follower) read(addr uint64, t *touchedPage) (why string) {
	m := debuggee.Find(f.maps, addr)
	switch {
	case addr >= userEnd:
		return "it touches the kernel's addresses"
	case m == nil:
		return "it touches an address where nothing is mapped" // and raises a signal, or the stack grows
	case m.Name == "[vdso]" || strings.HasPrefix(m.Name, "[vvar") || m.Name == "[vsyscall]":
		return "it touches " + m.Name + ", which is the kernel's"
	}
	if err := f.Page(addr, &t.data); err != nil {
		return "it touches a page that cannot be read"
	}
	t.writable = m.Writable
	return ""
}
