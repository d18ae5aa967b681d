package launch_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
	"github.com/bbprof/bbprof/verdict"
)

// hostile is the number of mutated ELF files and of ill-behaved programs to run; a larger number runs all.
var hostile = flag.Int("hostile", 12, "mutated ELF files, and ill-behaved programs, to run")

// giveUpAfter is the timeout of a program; most end at once.
const giveUpAfter = 200 * time.Millisecond

var patient = launch.Control{Timeout: giveUpAfter, Stderr: &bytes.Buffer{}}

// attempts lists the ways in which count and sweep run programs.
var attempts = []struct {
	name string
	run  func(context.Context, launch.Command) error
}{
	{"count", func(ctx context.Context, c launch.Command) error {
		for _, function := range []string{"main", "behave", fmt.Sprintf("%#x", tinyelf.Base)} {
			_, err := count.Function(ctx, c, function, count.Options{Control: patient, Limit: 5000})
			if err != nil && !strings.Contains(err.Error(), "no function") {
				return err
			}
		}
		return nil
	}},
	{"sweep", func(ctx context.Context, c launch.Command) error {
		r, err := launch.NewRunner(launch.Options{Control: patient, AnyStatus: true})
		if err != nil {
			return err
		}
		_, err = launch.Sweep(ctx, r, launch.In(c, launch.Layouts(2, 1)), experiment.Plan{Rounds: 1})
		return err
	}},
}

// attempt runs a program in one way. Only the program may be blamed, and no process may remain.
func attempt(t *testing.T, words []string, run func(context.Context, launch.Command) error) {
	t.Helper()
	began := time.Now()
	c, err := launch.NewCommand(words)
	if err == nil {
		err = run(context.Background(), c)
	}
	var bad *launch.Error
	if err != nil && !errors.As(err, &bad) {
		var host *verdict.HostError
		if errors.As(err, &host) && host.Busy {
			require.Skip(t, require.Idle, "%v", err)
		}
		t.Errorf("%v (%T), want nothing or a *launch.Error", err, err)
	}
	if took := time.Since(began); took > 40*giveUpAfter {
		t.Errorf("it took %v", took)
	}
	require.NoChildren(t) // whatever they became
	if left := running(words[0]); len(left) > 0 {
		t.Errorf("left behind: %q (%v)", left, err)
		for _, pid := range left {
			var n int
			fmt.Sscan(pid, &n)
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// running returns the program's live processes.
func running(path string) (pids []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.TrimSuffix(exe, " (deleted)") == path {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// TestMutatedELF: a file with corrupted headers runs, or is refused with the program blamed.
func TestMutatedELF(t *testing.T) {
	shell, err := os.ReadFile("/bin/true") // dynamically linked and position-independent
	if err != nil {
		require.Skip(t, require.Kernel, "no /bin/true: %v", err)
	}
	originals := [][]byte{tinyelf.File([]byte(tinyelf.Exit(0)), tinyelf.Symbol{Name: "main"}), shell}
	dir := t.TempDir()
	for n := range min(*hostile, 120) {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		file := bytes.Clone(originals[n%2])
		for range 1 + random.IntN(3) {
			const headers = 64 + 13*56 // the ELF header and /bin/true's program headers
			at := min(16+random.IntN(headers-16), len(file)-1)
			file[at] = []byte{0, 1, 0x7f, 0x80, 0xff, file[at] ^ 1<<random.IntN(8), byte(random.Uint32())}[random.IntN(7)]
		}
		if random.IntN(10) == 0 {
			file = file[:random.IntN(len(file))]
		}
		path := filepath.Join(dir, fmt.Sprintf("elf%d", n))
		require.NoError(t, os.WriteFile(path, file, 0o755))
		for _, a := range attempts {
			t.Run(fmt.Sprintf("%d/%s", n, a.name), func(t *testing.T) { attempt(t, []string{path}, a.run) })
		}
	}
}

// illBehaved compiles the ill-behaved programs and lists their names.
func illBehaved(t *testing.T) (path string, names []string) {
	t.Helper()
	path = require.Compiled(t, "testdata/ill.c", "-O1", "-w", "-pthread")
	list := require.Get(exec.Command(path).Output())(t)
	return path, strings.Fields(string(list))
}

// TestIllBehaved: whatever a program does to itself, its children and bbprof, bbprof ends what it started in time and
// blames the program.
func TestIllBehaved(t *testing.T) {
	require.Slow(t)
	path, names := illBehaved(t)
	step := max(1, len(names)/max(*hostile, 1))
	for i, name := range names {
		if strings.HasPrefix(name, "stopsparent") || i%step > 0 { // see TestStopsBbprof
			continue
		}
		for _, a := range attempts {
			t.Run(name+"/"+a.name, func(t *testing.T) { attempt(t, []string{path, name}, a.run) })
		}
	}
}

// stoppable is the environment variable that names the program to run instead of all tests.
const stoppable = "BBPROF_TEST_STOPPABLE"

// TestStopsBbprof: a program that stops bbprof does not outlive its timeout.
func TestStopsBbprof(t *testing.T) {
	require.Slow(t)
	if path := os.Getenv(stoppable); path != "" {
		attempt(t, strings.Fields(path), attempts[1].run)
		return
	}
	path, _ := illBehaved(t)
	for _, name := range []string{"stopsparent", "stopsparentagain"} {
		c := exec.Command("/proc/self/exe", "-test.run=^TestStopsBbprof$")
		c.Env = append(os.Environ(), stoppable+"="+path+" "+name)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		require.NoError(t, c.Start())
		overdue := time.AfterFunc(50*giveUpAfter, func() { c.Process.Kill() })
		if err := c.Wait(); err != nil || !overdue.Stop() {
			t.Errorf("%s: %v: %s", name, err, out.String())
		}
	}
}
