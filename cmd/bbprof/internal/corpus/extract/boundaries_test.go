package extract

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

// arrivals counts the transfers of control to each address of a file, and the executed instructions.
type arrivals struct {
	came map[uint64]uint64
	ran  map[uint64]uint64
}

// readArrivals reads a file from callgrind --collect-jumps=yes. Lines of jumps and calls hold count and target; a
// source line follows each.
func readArrivals(t *testing.T, name string) map[string]*arrivals {
	t.Helper()
	all := map[string]*arrivals{}
	came := func(object string, to, n uint64) {
		if all[object] == nil {
			all[object] = &arrivals{came: map[uint64]uint64{}}
		}
		all[object].came[to] += n
	}
	r := newCallgrindReader([]string{executed}, map[string][]map[uint64]uint64{})
	object, callee := "", ""
	for line := range strings.Lines(string(require.Get(os.ReadFile(name))(t))) {
		line = strings.TrimSuffix(line, "\n")
		switch key, value, _ := strings.Cut(line, "="); key {
		case "ob":
			object, _ = r.object(value)
			callee = object
		case "fn":
			callee = object
		case "cob":
			callee, _ = r.object(value)
		case "calls", "jump", "jcnd":
			cells := strings.Fields(value)
			count, _, _ := strings.Cut(cells[0], "/")
			n, _ := strconv.ParseUint(count, 10, 64)
			to := require.Get(position(cells[1], r.addr))(t)
			if key == "calls" {
				came(callee, to, n)
				callee = object
			} else {
				came(object, to, n)
			}
		}
		require.NoError(t, r.take(line))
	}
	for object, a := range all {
		if counts := r.counts[object]; counts != nil { // else it is only called
			a.ran = counts[0]
		}
	}
	return all
}

// executed returns the blocks that ran, by start and end without the final transfer.
func (a *arrivals) executed(t *testing.T, o *object, cut Cut) map[span]uint64 {
	steps := map[uint64]asm.Step{}
	for addr := range a.ran {
		s := o.code(addr)
		if s == nil || isLinkage(s.Name) {
			continue
		}
		step, err := asm.StepOver(s.data()[addr-s.addr:])
		if err != nil {
			t.Errorf("%#x ran and does not decode: %v", addr, err)
			continue
		}
		steps[addr] = step
	}
	came := map[uint64]uint64{}
	for addr, n := range a.came {
		if !steps[addr].Repeats { // callgrind counts each repetition as a jump
			came[addr] += n
		}
	}
	for addr, s := range steps { // returned from a call, or fell through
		next := addr + uint64(s.Length)
		if _, ran := steps[next]; ran && s.Flow != asm.FlowNext && !s.Flow.Ends() {
			came[next] = max(came[next], a.ran[next])
		}
	}
	blocks := map[span]uint64{}
	for start, n := range came {
		at := start
		s, ok := steps[at]
		for ; ok && s.Flow == asm.FlowNext; s, ok = steps[at] {
			at += uint64(s.Length)
			if came[at] > 0 && cut == CutLeader || a.ran[at] == 0 { // an instruction after an exit never ran
				break
			}
		}
		if at > start && n > 0 {
			if cut == CutLeader {
				n = a.ran[start]
			}
			blocks[span{start, at}] = n
		}
	}
	return blocks
}

// TestBoundaries runs programs under callgrind and checks how many executed blocks static extraction finds.
func TestBoundaries(t *testing.T) {
	require.Slow(t)
	require.Tool(t, require.Valgrind, "valgrind")
	input := require.File(t, "input", strings.Repeat("the quick brown fox jumps over the lazy dog 0123456789\n", 300))
	profile := filepath.Join(t.TempDir(), "callgrind")
	cmd := exec.Command("valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--collect-jumps=yes",
		"--callgrind-out-file="+profile, require.Tool(t, require.Gzip, "gzip"), "-c", input)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%.500s", cmd.Args, err, out)
	}
	for cut, want := range map[Cut]float64{CutLeader: 0.95, CutTransfer: 0.995} {
		var all, same uint64
		for file, a := range readArrivals(t, profile) {
			if _, err := os.Stat(file); err != nil || !strings.HasPrefix(file, "/") {
				continue
			}
			o, ours := openWith(t, file, cut)
			for b, n := range a.executed(t, o, cut) {
				if all += n; ours[b] {
					same += n
				} else if testing.Verbose() && n > 1000 {
					t.Logf("%s %#x-%#x ran %d times", filepath.Base(file), b.lo, b.hi, n)
				}
			}
		}
		if share := float64(same) / float64(all); share < want {
			t.Errorf("cut at each %s: %.4f of %d executions are in blocks with the same boundaries, want %v", cut, share, all, want)
		}
	}
}

// openWith returns an object and the blocks extracted from it.
func openWith(t *testing.T, file string, cut Cut) (*object, map[span]bool) {
	t.Helper()
	ours := map[span]bool{}
	require.NoError(t, File(t.Context(), file, Options{Cut: cut}, new(Stats), func(b *Block) error {
		ours[span{b.Addr, b.Addr + uint64(len(b.Code))}] = true
		return nil
	}))
	f := require.Get(os.Open(file))(t)
	t.Cleanup(func() { f.Close() })
	o := require.Get(openObject(file, f, nil, new(Stats)))(t)
	return o, ours
}
