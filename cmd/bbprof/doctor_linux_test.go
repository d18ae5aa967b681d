package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/doctor"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
)

// TestDoctorKeepsItsWord sets hosts up in which something is missing (see under). On each, doctor
// names it with what mends it, and bbprof -hex does what doctor promises.
func TestDoctorKeepsItsWord(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	cpus := require.Get(host.AllowedCPUs())(t)
	reachable(t, filepath.Dir(require.Get(exec.LookPath("bbprof"))(t)))
	const filter = "docker: --security-opt seccomp=unconfined"
	for _, c := range []struct {
		conditions []string
		exit       int
		// what is missing and the remedy, in one of the shortcomings: the first, where exit says
		// that nothing can be measured.
		what, remedy string
		privileged   bool // it takes root to set it up
	}{
		{nil, cli.ExitOK, "", "", false},
		{[]string{"namespaces", "nobody"}, cli.ExitOK, "", "", true},
		{[]string{"noproc"}, cli.ExitHost, "/proc is not mounted", "mount -t proc proc /proc", true},
		{[]string{"deny=ptrace:EPERM"}, cli.ExitHost, "ptrace is forbidden by a system-call filter", filter, false},
		{[]string{"deny=ptrace:ENOSYS"}, cli.ExitHost, "ptrace is forbidden by a system-call filter", filter, false},
		{[]string{"deny=ptrace:kill"}, cli.ExitHost, "a system-call filter kills the child", filter, false},
		{[]string{"deny=memfd_create:EPERM"}, cli.ExitHost, "memfd_create is refused", filter, false},
		{[]string{"deny=seccomp:EPERM"}, cli.ExitHost, "seccomp filters", filter, false},
		{[]string{"deny=perf_event_open:EPERM"}, cli.ExitOK, "perf_event_open", "seccomp profile", false},
		{[]string{"cpu=" + strconv.Itoa(cpus[0])}, cli.ExitOK, "", "", false},
		{[]string{"deny=sched_setaffinity:EPERM"}, cli.ExitHost, "sched_setaffinity is refused", filter, false},
	} {
		t.Run(strings.Join(c.conditions, ","), func(t *testing.T) {
			if c.privileged && os.Geteuid() != 0 {
				require.Skip(t, require.Root, "it takes root to set such a host up")
			}
			var r doctor.Report
			exit, text, _ := runUnder(t, "under", c.conditions, "bbprof", "doctor", "-json", "-budget", "500ms")
			if err := json.Unmarshal([]byte(text), &r); err != nil || exit != c.exit || r.CanMeasure != (exit == cli.ExitOK) {
				t.Fatalf("doctor: exit code %d, want %d, can measure: %v, %v\n%s", exit, c.exit, r.CanMeasure, err, text)
			}
			if exit == cli.ExitOK && len(r.Evidence) == 0 {
				require.Skip(t, require.Idle, "the core is not left alone: doctor measured nothing")
			}
			named := c.what == ""
			for i, s := range r.Shortcomings {
				named = named || strings.Contains(s.What, c.what) && strings.Contains(s.Remedy, c.remedy) && (i == 0 || exit == cli.ExitOK)
			}
			if !named {
				t.Errorf("doctor does not name %q with %q: %v", c.what, c.remedy, r.Shortcomings)
			}
			exit, text, stderr := runUnder(t, "under", c.conditions, "bbprof", "-json", "-v", "-budget", "500ms", "-hex", "488b03")
			if exit != c.exit {
				t.Fatalf("doctor exits with %d, bbprof -hex with %d: %s", c.exit, exit, stderr)
			}
			if exit == cli.ExitHost {
				if !strings.Contains(stderr, r.Shortcomings[0].What) || !strings.Contains(stderr, r.Shortcomings[0].Remedy) {
					t.Errorf("doctor says %v, bbprof -hex %s", r.Shortcomings[0], stderr)
				}
				return
			}
			var result struct {
				Clock       string
				Calibration profiler.ClockReport
				Host        profiler.HostReport
				Evidence    []invariants.Evidence
			}
			if err := json.Unmarshal([]byte(text), &result); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if disturbed(text) {
				require.Skip(t, require.Idle, "the core is not left alone")
			}
			if result.Clock != r.Clock.Name || result.Calibration.StepTicks != r.Clock.StepTicks {
				t.Errorf("doctor promises the clock %s in steps of %g ticks, it is %s in steps of %g", r.Clock.Name,
					r.Clock.StepTicks, result.Clock, result.Calibration.StepTicks)
			}
			if result.Host.SpeculativeStoreBypass != r.SpeculativeStoreBypass {
				t.Errorf("store bypass: doctor says %q, it is %q", r.SpeculativeStoreBypass, result.Host.SpeculativeStoreBypass)
			}
			if promised, given := kinds(r.Evidence), kinds(result.Evidence); promised != given {
				t.Errorf("doctor promises the evidence %s, it is %s", promised, given)
			}
			// Page 0: xor eax, eax; mov eax, [rax].
			exit, text, stderr = runUnder(t, "under", c.conditions, "bbprof", "-rescue=false", "-budget", "500ms", "-hex", "31c08b00")
			want := map[string]int{"yes": cli.ExitOK, "no": cli.ExitRejected}[r.Host.PageZero]
			if exit != want || (exit == cli.ExitRejected) != strings.Contains(text, "mmap_min_addr") {
				t.Errorf("doctor says of page 0 %q, bbprof -hex ends with %d: %s%s", r.Host.PageZero, exit, text, stderr)
			}
		})
	}
}

// reachable lets every user reach a folder and the temporary one that it is in.
func reachable(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
}

// kinds is a short form of evidence.
func kinds(evidence []invariants.Evidence) string {
	var s []string
	for _, e := range evidence {
		s = append(s, string(e.Invariant)+" "+string(e.Kind))
	}
	return strings.Join(s, ", ")
}

// runUnder runs a program under conditions, again if it was disturbed.
func runUnder(t *testing.T, under string, conditions []string, program ...string) (exit int, stdout, stderr string) {
	t.Helper()
	const tries = 4 // of what may be the block's doing
	var waited require.Tries
	for try := 1; ; try++ {
		began := time.Now()
		exit, stdout, stderr = runOnceUnder(t, under, conditions, program...)
		said := stdout + stderr
		switch {
		case exit == cli.ExitOK:
			return exit, stdout, stderr
		case neverIdle(said):
			require.Skip(t, require.Idle, "%s", said)
		case disturbed(said):
			waited.Again(t, time.Since(began), said)
		case try >= tries || !suspect(said):
			return exit, stdout, stderr
		}
	}
}

func runOnceUnder(t *testing.T, under string, conditions []string, program ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return inTime(t, time.Hour, under, conditions, program...)
}

// inTime runs a program once under conditions; its exit code is -1 if it did not end in time.
func inTime(t *testing.T, within time.Duration, under string, conditions []string, program ...string) (exit int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var out, err strings.Builder
	words := commandUnder(under, conditions, program...)
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdout, c.Stderr, c.WaitDelay = &out, &err, time.Second
	if e := c.Run(); ctx.Err() == nil && e != nil && !errors.As(e, new(*exec.ExitError)) {
		t.Fatal(e)
	}
	exit = c.ProcessState.ExitCode()
	if said := err.String(); exit == notUnder || strings.HasPrefix(said, "unshare: ") || strings.HasPrefix(said, "setpriv: ") {
		require.Skip(t, require.Root, "this host cannot be set up so: %s", said)
	}
	return exit, out.String(), err.String()
}
