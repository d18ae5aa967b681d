package extract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/internal/strays"
	"github.com/bbprof/bbprof/verdict"
)

// A Run is a program to run for counts or time. Processes that it leaves running are killed.
type Run struct {
	Program   []string // with its arguments
	Stdin     io.Reader
	Out, Err  io.Writer         // files, or nil: a pipe would stay open as long as any process left running
	AnyStatus bool              // accept any exit status
	Timeout   time.Duration     // of one run, default 10 minutes
	Note      func(note string) // called with notes for the user
}

// samplesPerSecond is perf's sampling rate. The kernel allows 100,000 by default
// (kernel.perf_event_max_sample_rate); this costs some 3 % of the time.
const samplesPerSecond = 10000

// Profile runs the program under valgrind's callgrind, which counts exactly. If valgrind does not know one of its
// instructions, the program runs again under perf, which samples.
func (r *Run) Profile(ctx context.Context) (*Profile, error) {
	counted, unknown, err := r.callgrind(ctx, []string{executed})
	if unknown != "" {
		r.Note(fmt.Sprintf("valgrind does not know an instruction of %s (%s), so it cannot count; sampling with perf instead",
			r.Program[0], unknown))
		return r.Samples(ctx)
	}
	if err != nil {
		return nil, err
	}
	p := counted[0]
	if p.Source = "this run"; cpuid.CPU.Supports(cpuid.AVX512F) {
		r.Note("valgrind hides this CPU's AVX-512, so that libraries may have taken other paths than they do without it")
	}
	return p, nil
}

// Missed runs the program under callgrind with models of the data caches and of a branch predictor, at three times the
// time of Profile. It counts loads that miss L1, loads that miss L2, and conditional branches that are mispredicted.
func (r *Run) Missed(ctx context.Context) ([]*Profile, error) {
	missed, unknown, err := r.callgrind(ctx, []string{"D1mr", "DLmr", "Bcm"}, "--cache-sim=yes", "--branch-sim=yes", "--LL="+secondLevel())
	if unknown != "" {
		err = &verdict.HostError{Missing: fmt.Sprintf("valgrind does not know an instruction of %s (%s)", r.Program[0], unknown)}
	}
	if host, ok := errors.AsType[*verdict.HostError](err); ok {
		host.Remedy = "install valgrind (Debian: apt-get install valgrind), or do without its misses"
	}
	return missed, err
}

// secondLevel describes the second-level cache for callgrind's last one, which must have a power of two of sets: its first is the CPU's.
func secondLevel() string {
	const usual, ways, line = 1 << 20, 16, 64
	size := cmp.Or(max(cpuid.CPU.Cache.L2, 0), usual)
	return fmt.Sprintf("%d,%d,%d", 1<<(bits.Len(uint(size))-1), ways, line)
}

// callgrind runs the program and adds up events that callgrind counted in all of its processes. unknown are the bytes of the instruction at which valgrind stopped
// because it does not know it, if there is one.
func (r *Run) callgrind(ctx context.Context, events []string, options ...string) (counted []*Profile, unknown string, err error) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return nil, "", &verdict.HostError{
			Missing: "no valgrind, which counts what a program executes",
			Remedy:  "install it (Debian: apt-get install valgrind), or give -perf the text of perf script --show-mmap-events",
		}
	}
	dir, err := os.MkdirTemp("", "bbprof-extract-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	options = append(options, "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--trace-children=yes",
		"--callgrind-out-file="+filepath.Join(dir, "callgrind.%p"), "--log-file="+filepath.Join(dir, "log.%p"))
	_, left, err := r.run(ctx, valgrind, append(options, r.Program...), " under valgrind")
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "log.*"))
		for _, name := range logs {
			text, _ := os.ReadFile(name)
			if _, after, ok := strings.Cut(string(text), "unhandled instruction bytes: "); ok {
				unknown, _, _ = strings.Cut(after, "\n")
			}
		}
		return nil, unknown, err
	}
	for _, pid := range left { // it may still have been writing
		os.Remove(filepath.Join(dir, fmt.Sprintf("callgrind.%d", pid)))
	}
	files, _ := filepath.Glob(filepath.Join(dir, "callgrind.*"))
	files = slices.DeleteFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
	if len(files) == 0 {
		return nil, "", &InputError{Subject: r.Program[0], Problem: "valgrind counted no instruction",
			Remedy: "programs that the kernel runs with other rights, such as setuid ones, cannot be counted"}
	}
	counted, err = readEvents(events, files...)
	return counted, "", err
}

// Samples runs the program under perf, which samples its address many times a second.
func (r *Run) Samples(ctx context.Context) (*Profile, error) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return nil, &verdict.HostError{Missing: "no perf, which samples a program", Remedy: "install it (Debian: apt-get install linux-perf)"}
	}
	dir, err := os.MkdirTemp("", "bbprof-extract-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "perf.data")
	// without -N perf leaves copies of the program and its libraries in ~/.debug
	args := append([]string{"record", "-q", "-N", "-e", "cpu-clock:u", "-F", fmt.Sprint(samplesPerSecond), "-o", data, "--"}, r.Program...)
	if _, _, err := r.run(ctx, perf, args, " under perf"); err != nil {
		return nil, err
	}
	text, err := os.Create(filepath.Join(dir, "perf script"))
	if err != nil {
		return nil, err
	}
	defer text.Close()
	var problem bytes.Buffer
	script := exec.CommandContext(ctx, perf, "script", "-i", data, "--show-mmap-events", "-F", "comm,pid,tid,time,event,ip")
	script.Stdout, script.Stderr = text, &problem
	if err := script.Run(); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n")
		return nil, &InputError{Subject: r.Program[0], Problem: "perf script failed: " + line}
	}
	p, err := ReadPerf(text.Name())
	if bad := (*InputError)(nil); errors.As(err, &bad) {
		bad.Subject = "perf script"
	} else if err == nil {
		p.Source = "this run"
	}
	return p, err
}

// UserTime runs the program alone.
func (r *Run) UserTime(ctx context.Context) (time.Duration, error) {
	state, _, err := r.run(ctx, r.Program[0], r.Program[1:], "")
	if err != nil {
		return 0, err
	}
	return state.UserTime(), nil
}

// run runs a tool on the program, or the program alone, and returns the processes that it left running.
func (r *Run) run(ctx context.Context, name string, args []string, where string) (state *os.ProcessState, left []int, err error) {
	timeout := cmp.Or(r.Timeout, 10*time.Minute)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, r.Out, r.Err
	if where != "" { // Go's preemption signals keep valgrind from making progress
		debug := "asyncpreemptoff=1"
		if old := os.Getenv("GODEBUG"); old != "" {
			debug = old + "," + debug
		}
		cmd.Env = append(os.Environ(), "GODEBUG="+debug)
	}
	fail := func(problem, remedy string, err error) (*os.ProcessState, []int, error) {
		return nil, nil, &InputError{Subject: r.Program[0], Problem: problem + where, Remedy: remedy, Err: err}
	}
	left, err = strays.Run(cmd)
	host, exit := (*verdict.HostError)(nil), (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil: // Run's error blames the program, but ctx killed it
		return nil, nil, ctx.Err()
	case errors.As(err, &host):
		return nil, nil, err
	case err != nil && limited.Err() != nil:
		return nil, nil, &InputError{Subject: r.Program[0], Problem: fmt.Sprintf("it did not end%s within %v and was "+
			"killed", where, timeout), Remedy: "give it longer with -timeout, or less to do"}
	case errors.As(err, &exit):
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return fail(fmt.Sprintf("ended by signal %d (%v)", int(s.Signal()), s.Signal()), "run it by itself first", nil)
		} else if !r.AnyStatus {
			return fail(fmt.Sprintf("exit status %d", exit.ExitCode()), "-any-status takes it as it is", nil)
		}
	case verdict.NoMoreFiles(err) != nil:
		return nil, nil, verdict.NoMoreFiles(err)
	case err != nil:
		return fail("it cannot be run", "run it by itself first", cmp.Or(errors.Unwrap(err), err))
	}
	if len(left) > 0 {
		r.Note(r.Program[0] + " ended with processes of its own still running; these were ended too, and not all that they ran is counted")
	}
	return cmd.ProcessState, left, nil
}
