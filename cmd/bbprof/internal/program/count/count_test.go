package count

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

func command(t *testing.T, path string, args ...string) launch.Command {
	t.Helper()
	return require.Get(launch.NewCommand(append([]string{path}, args...)))(t)
}

// made returns a program of that code, with f at an offset.
func made(t *testing.T, code []byte, at int) launch.Command {
	t.Helper()
	return command(t, tinyelf.Write(t, code, tinyelf.Symbol{Name: "f", Offset: at}))
}

// try counts by steps and by copies, which must agree, unless o has another method. It skips the test if this host
// cannot trace.
func try(t *testing.T, c launch.Command, name string, o Options) (Result, error) {
	t.Helper()
	both := o.Method == "" && o.Stepped == nil && !c.Exe.IsGo
	o.Method = cmp.Or(o.Method, Step)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	r, err := Function(context.Background(), c, name, o)
	if !errors.Is(err, errZero) {
		require.Host(t, err)
	}
	if both {
		o.Method, o.CopyAfter = Copy, 1
		by, byErr := Function(context.Background(), c, name, o)
		if !slices.Equal(by.Calls, r.Calls) || by.Again != r.Again || !slices.Equal(by.Notes, r.Notes) || fmt.Sprint(byErr) != fmt.Sprint(err) {
			t.Errorf("by copies %+v, %v; by steps %+v, %v", by, byErr, r, err)
		} else if r.Instructions > 50 && by.Method != Copy {
			t.Errorf("no copies ran: %+v", by)
		}
	}
	return r, err
}

// byAll counts all calls by all methods. The scripted counter tells only how many calls there are.
func byAll(t *testing.T, c launch.Command, name string, jit bool, want []uint64, note string) {
	t.Helper()
	for _, method := range []Method{Step, Copy, Hard} {
		r := require.Get(try(t, c, name, Options{JIT: jit, Method: method, CopyAfter: 1, Calls: All, Kernel: pmutest.New(4)}))(t)
		if method != Hard && !slices.Equal(counts(r), want) || len(r.Calls) != len(want) {
			t.Errorf("%s: %v, want %v", method, counts(r), want)
		}
		if slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.Returned }) {
			t.Errorf("%s: %+v", method, r)
		}
		if notes := fmt.Sprint(r.Notes); !strings.Contains(notes, note) {
			t.Errorf("%s: notes %s", method, notes)
		}
	}
}

func counts(r Result) (all []uint64) {
	for _, c := range r.Calls {
		all = append(all, c.Instructions)
	}
	return all
}

// calling appends a function f, called from the entry: 5 bytes of call, 12 of exit.
func calling(f ...string) []byte {
	return tinyelf.Asm("\xe8\x0c\x00\x00\x00", tinyelf.Exit(0), strings.Join(f, ""))
}

const fAt = 17

var straight = calling("\x90", "\x90", "\xc3")

// looping counts down from n: 2 n + 2 instructions.
func looping(n byte) []byte {
	return calling("\xb9"+string([]byte{n})+"\x00\x00\x00", "\xff\xc9", "\x75\xfc", "\xc3")
}

// recursive: mov edi,3; call g; exit; g: call f; ret; f: dec edi; jz 1f; jmp g; 1: ret.
var recursive = tinyelf.Asm("\xbf\x03\x00\x00\x00", "\xe8\x0c\x00\x00\x00", tinyelf.Exit(0), "\xe8\x01\x00\x00\x00",
	"\xc3", "\xff\xcf", "\x74\x02", "\xeb\xf4", "\xc3")

const recursiveAt = 5 + fAt + 6

// three: mov ebx,3; 1: mov ecx,ebx; call f; dec ebx; jnz 1b; exit; f: dec ecx; jnz f; ret.
var three = tinyelf.Asm("\xbb\x03\x00\x00\x00", "\x89\xd9", "\xe8\x10\x00\x00\x00", "\xff\xcb", "\x75\xf5",
	tinyelf.Exit(0), "\xff\xc9", "\x75\xfc", "\xc3")

const threeAt = 28

// signalling handles SIGUSR1 and calls f, which sends it to itself.
var signalling = tinyelf.Asm(
	"\x6a\x00", "\x48\x8d\x05\x4e\x00\x00\x00", "\x50", // struct kernel_sigaction: the mask, the restorer,
	"\x68\x00\x00\x00\x04", "\x48\x8d\x05\x3f\x00\x00\x00", "\x50", // SA_RESTORER, the handler
	"\xbf\x0a\x00\x00\x00", "\x48\x89\xe6", "\x31\xd2", "\x41\xba\x08\x00\x00\x00", "\xb8\x0d\x00\x00\x00", "\x0f\x05", // rt_sigaction
	"\xe8\x0c\x00\x00\x00", tinyelf.Exit(0),
	"\xb8\x27\x00\x00\x00", "\x0f\x05", "\x89\xc7", "\xbe\x0a\x00\x00\x00", "\xb8\x3e\x00\x00\x00", "\x0f\x05", "\xc3", // f: kill(getpid(), SIGUSR1)
	"\x90", "\xc3", // the handler
	"\xb8\x0f\x00\x00\x00", "\x0f\x05", // the restorer: rt_sigreturn
)

// TestKnownPrograms counts programs whose every instruction is known.
func TestKnownPrograms(t *testing.T) {
	type program struct {
		name string
		code []byte
		at   int
		want []uint64
	}
	programs := []program{
		{"a signal to itself, with a handler", signalling, 63, []uint64{7 + 2 + 2}}, // includes the handler's nop, ret and return to the kernel
		{"recursion that returns to the same place", recursive, recursiveAt, []uint64{13}},
	}
	for _, row := range require.Table(t, "known.txt") {
		want := require.Get(strconv.ParseUint(row[2], 10, 64))(t)
		programs = append(programs, program{row[0], calling(string(require.Hex(t, row[1]))), fAt, []uint64{want}})
	}
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			byAll(t, made(t, c.code, c.at), "f", false, c.want, "")
		})
	}
}

// TestCopies: what runs in copies counts as by steps, and millions of instructions take no longer than thousands.
func TestCopies(t *testing.T) {
	var libraries []string
	for _, flag := range []string{"-DFIRST", "-DOTHER"} { // they are loaded at the same place
		libraries = append(libraries, require.Compiled(t, "testdata/later.c", "-O1", "-shared", "-fPIC", flag))
	}
	for _, c := range []struct{ flags, args []string }{{[]string{"-pie"}, libraries}, {[]string{"-no-pie", "-O2"}, nil}} {
		path := require.Compiled(t, "testdata/library.c", append([]string{"-O1", "-fno-builtin", "-Wl,--no-as-needed", "-lm", "-ldl"}, c.flags...)...)
		for name, calls := range map[string]int{"work": 1, "down": All, "compare": 10} {
			require.Get(try(t, command(t, path, c.args...), name, Options{Calls: calls}))(t)
		}
	}
	sums := require.Compiled(t, "../../../../../testdata/programs/sums.c", "-O0")
	at := func(n string) Result {
		return require.Get(try(t, command(t, sums, n), "product", Options{Method: Copy}))(t)
	}
	few, more, most := at("1000"), at("2000"), at("1001000")
	if each := more.Instructions - few.Instructions; most.Instructions != few.Instructions+1_000*each || few.Method != Step || most.Method != Copy {
		t.Errorf("%+v, %+v, %+v", few, more, most)
	}
}

// TestLeft: a call ends with a jump to its caller, as by longjmp, even to the address after the call. Switching to
// another stack is no return.
func TestLeft(t *testing.T) {
	returned := func(n uint64) []Call { return []Call{{Instructions: n, Returned: true}} }
	left := func(n uint64) []Call { return []Call{{Instructions: n, Left: true}} }
	descriptor := "\x48\x81\xec\x00\x10\x00\x00" + // sub rsp,0x1000
		"\x4c\x8d\xb4\x24\x00\x08\x00\x00" + // lea r14,[rsp+0x800]: a goroutine's
		"\x49\x89\x26" + // mov [r14],rsp: the lower end
		"\x4d\x89\x76\x08" + // mov [r14+8],r14: the upper
		"\x48\x81\xc4\x80\x00\x00\x00" // add rsp,0x80
	for _, c := range []struct {
		name   string
		before string
		f      string
		isGo   bool
		want   []Call
	}{
		{"by a jump behind the call", "\x48\x89\xe3", "\x90\x48\x89\xdc\xeb\xee", false, left(2)}, // mov rbx,rsp; f: nop; mov rsp,rbx; jmp
		{"by a jump to an outer caller", "\x48\x89\xe3\x53\x53", "\x48\x89\xdc\xeb\xef", false, left(1)},
		{"for a stack elsewhere, and back", "", "\x48\x89\xe0\x48\x81\xc4\x00\x00\x00\x10\x90\x48\x89\xc4\xc3", false, returned(5)}, // add rsp,1<<28
		{"by a panic, recovered", descriptor, "\x90\x48\x83\xc4\x08\xeb\xed", true, left(2)},                                        // f: nop; add rsp,8; jmp
		// f: nop; push 0; pop rax; ret
		{"by a return of a goroutine", descriptor, "\x90\x6a\x00\x58\xc3", true, returned(4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := made(t, tinyelf.Asm(c.before, "\xe8\x0c\x00\x00\x00", tinyelf.Exit(0), c.f), len(c.before)+fAt)
			cmd.Exe.IsGo = c.isGo
			r, err := try(t, cmd, "f", Options{})
			if err != nil || !slices.Equal(r.Calls, c.want) || len(r.Notes) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestEntry: at a program's entry there is no return address, only the argument count.
func TestEntry(t *testing.T) {
	// pop rsi; push rsi; exit
	cmd := command(t, tinyelf.Write(t, tinyelf.Asm("\x5e\x56", tinyelf.Exit(0)), tinyelf.Symbol{Name: "_start"}))
	for _, method := range []Method{Step, Hard} {
		r, err := try(t, cmd, "_start", Options{Method: method, Kernel: pmutest.New(4)})
		if err != nil || len(r.Calls) != 1 || r.Calls[0].Returned || r.Calls[0].Left || method == Step && r.Instructions != 5 {
			t.Errorf("%s: %+v, %v", method, r, err)
		}
	}
}

// reading returns a kernel whose counter reads as given.
func reading(all ...uint64) *pmutest.Kernel {
	k := pmutest.New(4)
	k.Counts = func(pmu.Attr) (n uint64) {
		n, all = all[0], all[1:]
		return n
	}
	return k
}

// TestByCounter: a stop's overhead is measured at the entry and subtracted; instructions stepped on the way are added.
func TestByCounter(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  []byte
		at    int
		reads []uint64
		want  uint64
	}{
		{"no overhead", looping(10), fAt, []uint64{0, 22}, 22},
		{"one too many a stop", looping(10), fAt, []uint64{1, 23}, 22},
		// 11 instructions to the innermost return, one of them stepped past the breakpoint, then one more to the next,
		// which is also stepped.
		{"recursion", recursive, recursiveAt, []uint64{2, 11 + 2, 2, 2}, 13},
	} {
		k := reading(c.reads...)
		r, err := try(t, made(t, c.code, c.at), "f", Options{Method: Hard, Kernel: k})
		if err != nil || !slices.Equal(counts(r), []uint64{c.want}) || r.Method != Hard || k.Left() != 0 {
			t.Errorf("%s: %+v, %v, %d counters left open; want %d", c.name, r, err, k.Left(), c.want)
		}
	}
}

// TestZeroCounter: a counter that reads zero is retried and then replaced by steps, unless it was requested.
func TestZeroCounter(t *testing.T) {
	cmd := made(t, straight, fAt)
	for _, c := range []struct {
		zeros  int // runs that read zero
		method Method
		want   uint64
		by     Method
	}{
		{0, Auto, 7, Hard},
		{zeroTries - 1, Auto, 7, Hard},
		{zeroTries, Auto, 3, Step},
		{zeroTries - 1, Hard, 7, Hard},
		{zeroTries, Hard, 0, ""},
	} {
		k := reading(append(make([]uint64, 2*c.zeros), 0, 7)...)
		r, err := try(t, cmd, "f", Options{Method: c.method, Kernel: k})
		if (c.by == "") != errors.Is(err, errZero) || c.by != "" && err != nil || r.Instructions != c.want || r.Method != c.by {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
}

// TestLimit: the longest call allowed, and one longer by an instruction.
func TestLimit(t *testing.T) {
	cmd := made(t, looping(10), fAt)
	if r, err := try(t, cmd, "f", Options{Limit: 22}); err != nil || r.Instructions != 22 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err := try(t, cmd, "f", Options{Limit: 21, Method: Step})
	require.FailsAs[*launch.Error](t, err, "more than 21 instructions", "-limit")
}

// TestStepped: progress is reported over all calls.
func TestStepped(t *testing.T) {
	loop := calling("\xb9\x00\x10\x00\x00", "\xff\xc9", "\x75\xfc", "\xc3") // 4,096 iterations of two instructions
	var told []int
	r, err := try(t, made(t, loop, fAt), "f", Options{Stepped: func(n int) { told = append(told, n) }})
	if err != nil || r.Instructions != 2*4096+2 || !slices.Equal(told, []int{4096, 8192}) {
		t.Errorf("%+v, told %v, %v", r, told, err)
	}
}

// TestCallsAsked: the first, some, all, and more calls than there are.
func TestCallsAsked(t *testing.T) {
	cmd := made(t, three, threeAt)
	for _, c := range []struct {
		calls int
		want  []uint64
		again bool
		note  string
	}{
		{0, []uint64{7}, true, ""},
		{1, []uint64{7}, true, ""},
		{2, []uint64{7, 5}, true, ""},
		{3, []uint64{7, 5, 3}, false, ""},
		{All, []uint64{7, 5, 3}, false, ""},
		{Last, []uint64{3}, false, "2 calls before it are not counted"},
		{4, []uint64{7, 5, 3}, false, "no more than 3 calls"},
	} {
		r, err := try(t, cmd, "f", Options{Calls: c.calls})
		if err != nil || !slices.Equal(counts(r), c.want) || r.Again != c.again {
			t.Errorf("%d: %+v, %v", c.calls, r, err)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%d: notes %q", c.calls, notes)
		}
	}
}

// hasty gives up on what runs for ever.
var hasty = launch.Control{Timeout: 100 * time.Millisecond}

// TestBadPrograms never call, crash, hang, or end within the call.
func TestBadPrograms(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   []byte
		o      Options
		want   []string // in the error
		counts []uint64 // otherwise in the result
		note   string
	}{
		{name: "never called", code: tinyelf.Asm(tinyelf.Exit(3), "\x90\x90\x90\x90\x90\xc3"), want: []string{"never called f", "status 3"}},
		{name: "crashes before", code: append([]byte{0x0f, 0x0b}, straight...), want: []string{"never called f", "illegal instruction"}},
		{name: "crashes in the call", code: calling("\x90", "\x0f\x0b"), counts: []uint64{1}, note: "illegal instruction"},
		{name: "crashes after the call", code: append(calling()[:5], "\x0f\x0b          \x90\xc3"...), counts: []uint64{2}, note: "illegal instruction"},
		{name: "exits in the call", code: calling("\x90", tinyelf.Exit(7)), counts: []uint64{4}, note: "status 7"},
		{name: "hangs before", code: append([]byte{0xeb, 0xfe}, straight...), o: Options{Control: hasty},
			want: []string{"0 calls", "100ms", "-timeout"}},
		{name: "hangs in the call", code: calling("\xeb\xfe"), o: Options{Control: hasty}, want: []string{"100ms", "-timeout"}},
		{name: "hangs after the call", code: append(calling()[:5], "\xeb\xfe          \x90\xc3"...),
			o: Options{Control: hasty}, counts: []uint64{2}, note: "was killed when all was counted"},
		{name: "sleeps in the call", // pause() for ever
			code: calling("\xb8\x22\x00\x00\x00", "\x0f\x05", "\xc3"), o: Options{Control: hasty}, want: []string{"100ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := fAt
			if strings.HasSuffix(c.name, "before") {
				at += 2
			}
			cmd := made(t, c.code, at)
			r, err := try(t, cmd, "f", c.o)
			// On a busy machine the call itself may take as long as the timeout of one that hangs.
			for ; c.want == nil && err != nil && c.o.Timeout > 0 && c.o.Timeout < time.Minute; c.o.Timeout *= 4 {
				r, err = try(t, cmd, "f", c.o)
			}
			require.FailsAs[*launch.Error](t, err, c.want...)
			if c.want == nil && (err != nil || !slices.Equal(counts(r), c.counts) || !strings.Contains(strings.Join(r.Notes, "\n"), c.note)) {
				t.Errorf("%+v, %v; want %v and a note of %q", r, err, c.counts, c.note)
			}
		})
	}
	require.NoChildren(t)
}

// TestCancel: a cancelled count ends with the context's error.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := Function(ctx, made(t, calling("\xeb\xfe"), fAt), "f", Options{Method: Step}); !errors.Is(err, context.Canceled) {
		require.Host(t, err)
		t.Errorf("%v", err)
	}
}

// TestC: builds of sums.c, position-independent or not, linked statically or not.
func TestC(t *testing.T) {
	for _, flag := range []string{"-pie", "-no-pie", "-static"} {
		path := require.Compiled(t, "../../../../../testdata/programs/sums.c", "-O0", flag)
		at := func(f, n string) uint64 {
			return require.Get(try(t, command(t, path, n), f, Options{}))(t).Instructions
		}
		if a, b := at("product", "10"), at("product", "1000"); b < 900*6 || b-a != 990*((b-a)/990) {
			t.Errorf("%s: product takes %d and %d", flag, a, b)
		}
		require.Equal(t, flag+": main, twice", at("main", "10"), at("main", "10"))
	}
}

// TestLoadedLater: a library's function is counted when dlopen loads it, and assembly whose author left out its type.
func TestLoadedLater(t *testing.T) {
	library := require.Compiled(t, "testdata/later.c", "-O1", "-shared", "-fPIC", "-Wl,-soname,liblater.so.1")
	c := command(t, require.Compiled(t, "testdata/dlopen.c", "-O1", "-ldl"), library, "100")
	r := require.Get(try(t, c, "liblater.so.1:later", Options{}))(t)
	c.Args[1] = "200"
	if more := require.Get(try(t, c, "liblater.so:later", Options{Calls: Last}))(t); more.Instructions-r.Instructions < 300 {
		t.Errorf("%+v, then %+v", r, more)
	}
	_, err := try(t, c, "liblater.so.1:nothing", Options{})
	require.FailsAs[*launch.Error](t, err, "it loaded no shared library liblater.so.1 with a function nothing")
	plain := command(t, require.Compiled(t, "testdata/untyped.s"))
	require.Equal(t, "of a function without a type", []uint64{22}, counts(require.Get(try(t, plain, "plain", Options{}))(t)))
}

// TestOddPrograms: threads, forks, signals and exec within a call disturb neither the count nor the program.
func TestOddPrograms(t *testing.T) {
	path := require.Compiled(t, "testdata/odd.c", "-O1", "-pthread")
	quiet := require.Get(try(t, command(t, path, "nothing"), "work", Options{}))(t)
	for _, c := range []struct {
		what   string
		more   bool   // more than work alone
		status string // in the notes
	}{
		{"threads", false, ""}, // others spin, and also call work
		{"forked", false, ""},  // a child calls work after the breakpoint was set
		{"fork", true, ""},     // in the call
		{"vfork", true, ""},
		{"wait", true, ""},    // for another thread
		{"ignored", true, ""}, // a signal that interrupts that
		{"signal", true, ""},  // to itself, with a handler
		{"alarm", true, ""},   // from a timer, for which it waits without a system call
		{"trap", true, ""},    // an int3 of its own
		{"exec", true, "became another program"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, method := range []Method{Step, Copy, Copy} {
				r := require.Get(try(t, command(t, path, c.what), "work", Options{Method: method, CopyAfter: 1}))(t)
				if n := r.Instructions; c.more != (n > quiet.Instructions) || n < quiet.Instructions && c.status == "" {
					t.Errorf("%d instructions, without that %d", n, quiet.Instructions)
				}
				require.Equal(t, "method", method, r.Method)
				if notes := fmt.Sprint(r.Notes); !strings.Contains(notes, c.status) || c.status == "" && len(r.Notes) > 0 {
					t.Errorf("notes: %s", notes)
				}
			}
		})
	}
	require.NoChildren(t)
}

// TestOthersInTheCall: another thread returns from the function while the counted one waits there, which then wakes as the other is
// stepped past its return; and a thread that is not the program's first ends it in the call.
func TestOthersInTheCall(t *testing.T) {
	path := require.Compiled(t, "testdata/threads.c", "-O1", "-pthread")
	for _, c := range []struct {
		what   string
		want   Call
		status string // in the notes
	}{
		{"lower", Call{Instructions: 7, Returned: true}, ""},
		{"higher", Call{Instructions: 7, Returned: true}, ""},
		{"exit", Call{Instructions: 5}, "status 7"},
		{"exec", Call{Instructions: 5}, "became another program"},
		{"crash", Call{}, "signal 11"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := require.Get(try(t, command(t, path, c.what), "f", Options{Control: launch.Control{Timeout: 20 * time.Second}}))(t)
			if notes := fmt.Sprint(r.Notes); !slices.Equal(r.Calls, []Call{c.want}) || !strings.Contains(notes, c.status) || c.status == "" && len(r.Notes) > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
	require.NoChildren(t)
}

// TestJIT counts a function that appears as the program runs: see jit.c.
func TestJIT(t *testing.T) {
	path := require.Compiled(t, "../../../../../testdata/programs/jit.c", "-O1")
	for _, c := range []struct {
		what, does string
		want       []uint64
	}{
		{"listed when it is complete", "mwxlccc", []uint64{32, 35, 38}},
		{"listed before it is written", "mlwxccc", []uint64{32, 35, 38}},
		{"listed after a call", "mwxclcc", []uint64{35, 38}},
		{"made twice", "mwxlcmwxlcbc", []uint64{32, 35, 38}},
		{"replaced by another", "mwxlccoc", []uint64{32, 35}},
	} {
		t.Run(c.what, func(t *testing.T) {
			byAll(t, command(t, path, c.does), "product", true, c.want, "product is counted from when /tmp/perf-")
		})
	}
	for _, c := range []struct {
		does, name string
		want       []string
	}{
		{"mwxc", "product", []string{"no function product in /tmp/perf-", ".map: it ended with status 0; does it write that file?"}},
		{"mwxlc", "produkt", []string{"no function produkt in /tmp/perf-", "it listed product"}},
		{"mwxl", "product", []string{"never called product"}},
		{"l", "product", []string{"reading memory at 0x0"}},
	} {
		_, err := try(t, command(t, path, c.does), c.name, Options{JIT: true, Method: Step})
		require.FailsAs[*launch.Error](t, err, c.want...)
	}
}

// TestGo counts a Go program, whose stacks move and whose runtime has threads.
func TestGo(t *testing.T) {
	require.Slow(t)
	path := filepath.Join(t.TempDir(), "prog")
	build := exec.Command("go", "build", "-o", path, "../../../../../testdata/programs/sums.go")
	if out, err := build.CombinedOutput(); err != nil {
		require.Skip(t, require.Go, "it does not build here: %v: %s", err, out)
	}
	method := Step
	count := func(f, n string) uint64 {
		t.Helper()
		r := require.Get(try(t, command(t, path, n), f, Options{Method: method, CopyAfter: 1}))(t)
		if len(r.Notes) > 0 || !r.Calls[0].Returned {
			t.Errorf("%s: %+v", f, r)
		}
		return r.Instructions
	}
	for _, method = range []Method{Step, Copy, Copy} {
		if a, b := count("main.triangle", "10"), count("main.triangle", "1000"); (b-a)%990 != 0 || b-a < 2*990 {
			t.Errorf("triangle takes %d and %d", a, b)
		}
		if a, b := count("main.gauss", "10"), count("main.gauss", "1000"); a != b {
			t.Errorf("gauss takes %d and %d", a, b)
		}
	}
	// The stack moves: the return is still found, and the count includes at least the function's own.
	if n := count("main.deep", "20"); n < 20*100 {
		t.Errorf("deep takes %d", n)
	}
	if n := count("main.relay", "5"); n < 100 {
		t.Errorf("relay takes %d", n)
	}
}
