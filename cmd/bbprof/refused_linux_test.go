package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
	"github.com/bbprof/bbprof/verdict"
)

// refusals are the errors that a refused system call gives: of a container's profile, of an older
// kernel, of a call that the kernel knows otherwise, of a lack of resources.
var refusals = []string{"EPERM", "ENOSYS", "EINVAL", "EAGAIN"}

// refusedInShort is the part of TestRefused that each run of the tests has: calls whose refusal was
// once told as something else, or signalled others.
var refusedInShort = map[string][]string{
	"wait4": {"EPERM", "EAGAIN"}, "getrusage": {"EPERM", "EINVAL"}, "mremap": {"EPERM", "ENOSYS"},
	"getppid": {"EPERM"}, "ptrace": {"EINVAL"}, "pidfd_send_signal": {"EINVAL"}, "execve": {"EINVAL"},
	"close": {"EPERM"}, "capset": {"EINVAL"}, "read": {"EAGAIN"}, "ftruncate": {"EPERM"},
	"sched_getaffinity": {"ENOSYS"}, "epoll_create1": {"ENOSYS"}, "eventfd2": {"EAGAIN"}, "epoll_ctl": {"EPERM"},
	"epoll_pwait": {"EPERM"},
}

// ofFiles are calls whose refusal no program can tell from that of the one file that it is about: bbprof
// then names the file and what the kernel says of it. Those that start a program are among them because
// EINVAL is what exec says of a damaged file, too.
var ofFiles = map[string]bool{
	"dup3": true, "execve": true, "ptrace": true, "setsid": true,
	"faccessat2": true, "flock": true, "fstat": true, "fsync": true, "newfstatat": true, "openat": true, "pread64": true, "pwrite64": true,
}

// runtimeNeeds are calls without which Go's runtime dies, or does not end, with no code of bbprof's to
// prevent it: before any package is initialised, or in the end of a thread or of the process.
var runtimeNeeds = map[string]bool{
	"arch_prctl": true, "clone": true, "exit": true, "exit_group": true, "fcntl": true, "futex": true, "mmap": true,
	"rt_sigaction": true, "rt_sigprocmask": true, "rt_sigreturn": true, "sigaltstack": true,
}

// TestRefused: with any one system call refused bbprof works, or says with exit code 3 what is missing;
// it signals nobody else, leaves nothing running and does not hang. BBPROF_LONG=1 tries every call,
// else a few.
func TestRefused(t *testing.T) {
	require.Slow(t)
	under, bbprof := forAnyHost(t)
	jobs := refusedJobs(t)
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		for _, call := range slices.Sorted(maps.Keys(deniable)) {
			errnos := refusals
			if _, long := hostile.Long(); !long {
				if errnos = refusedInShort[call]; job != "hex" {
					errnos = nil
				}
			}
			for _, errno := range errnos {
				t.Run(job+"/"+call+"/"+errno, func(t *testing.T) {
					conditions := []string{"namespaces", "guarded", "deny=" + call + ":" + errno}
					within := time.Minute // calibration alone may wait for longer than 10 s on a busy machine
					if runtimeNeeds[call] {
						within = 5 * time.Second
					}
					code, stdout, stderr := inTime(t, within, under, conditions, append([]string{bbprof}, jobs[job]...)...)
					t.Logf("exit code %d: %.300s", code, strings.TrimSpace(stderr))
					if runtimeNeeds[call] {
						if code == signalled {
							t.Error(stderr)
						}
						return
					}
					if why := unexplained(call, code, stdout, stderr); why != "" {
						t.Errorf("exit code %d, %s: %.300s %.2000s", code, why, stdout, stderr)
					}
				})
			}
		}
	}
}

// refusedJobs are bbprof's main jobs with as little work as they can have.
func refusedJobs(t *testing.T) map[string][]string {
	t.Helper()
	// f: ret; entry: call f; mov edi, 0; mov eax, 231 (exit_group); syscall
	program := tinyelf.Write(t, []byte{
		0xe8, 0x0c, 0, 0, 0, 0xbf, 0, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05, 0xc3,
	}, tinyelf.Symbol{Name: "f", Offset: 17})
	corpus := require.File(t, "in.csv", "hex\n488b03\n90\n")
	return map[string][]string{
		"hex":    {"-json", "-hex", "488b03"}, // mov rax, [rbx]
		"batch":  {"batch", "-format", "jsonl", "-o", filepath.Join(t.TempDir(), "out.jsonl"), "-overwrite", corpus},
		"doctor": {"doctor", "-json"},
		"count":  {"count", "-func", "f", "--", program},
		"sweep":  {"sweep", "-env", "0:16:16", "-runs", "5", "--", program},
	}
}

// reasonIn matches the reason of a rejected block.
var reasonIn = regexp.MustCompile(`"reason": ?"([a-z0-9_]+)"`)

// saysWhy matches the sentence that goes with exit code 3, remedy and all, and that about a file. Where
// write is refused there can be none.
var (
	saysWhy  = regexp.MustCompile(`(?m)^bbprof: .*this host cannot measure: .*; `)
	saysFile = regexp.MustCompile(`(?m)^bbprof: .*(in\.csv|out\.jsonl|tiny).*: (operation not permitted|` +
		`function not implemented|invalid argument|resource temporarily unavailable|another bbprof)`)
)

// unexplained says what is wrong with how bbprof ended while a call was refused, "" if nothing is.
func unexplained(call string, code int, stdout, stderr string) string {
	switch {
	case code == cli.ExitOK, code == cli.ExitRejected:
		for _, m := range reasonIn.FindAllStringSubmatch(stdout, -1) {
			if r := verdict.Reason(m[1]); !r.Noise() {
				return fmt.Sprintf("the block is blamed (%s)", r)
			}
		}
		return ""
	case code == cli.ExitHost && (saysWhy.MatchString(stderr) || strings.Contains(stdout, `"remedy":`) || call == "write"): // doctor's is in its report
		return ""
	case code == cli.ExitHost:
		return "and no sentence with a remedy"
	case code == -1:
		return "for it hangs"
	case ofFiles[call] && saysFile.MatchString(stderr):
		return ""
	}
	return "which blames something else than the host"
}
