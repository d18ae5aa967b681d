package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestBuiltCode: of causes that stand in the code or in its operands, explain names those that this core feels. Each
// block has a partner that differs in the cause alone; the core is asked what that makes. A block without a partner has
// no such cause.
func TestBuiltCode(t *testing.T) {
	require.Slow(t)
	require.Patience(t)
	p, err := profiler.New(t.Context(), profiler.Options{Detail: true, NoRescue: true, Precision: 0.01, Budget: 500 * time.Millisecond})
	require.Measure(t, err)
	t.Cleanup(p.Close)
	chain := strings.Repeat("480fafc0", 12) // imul rax, rax
	for _, b := range []struct {
		name, hex, partner, cause string
		set, partnersSet          string
	}{
		// mov [rbx], cl, or rcx; mov rdx, [rbx]; and rdx, 0; add rcx, rdx
		{"a narrow store and a wide load", "880b 488b13 4883e200 4801d1", "48890b 488b13 4883e200 4801d1", "store forwarding", "", ""},
		// mov [rbx], ecx; mov [rbx+4], ecx, or mov [rbx], rcx and a store elsewhere; mov rcx, [rbx]
		{"two stores and a load of both", "890b 894b04 488b0b", "48890b 894b40 488b0b", "store forwarding", "", ""},
		{"the same beside a longer chain", "880b 488b13" + chain, "48890b 488b13" + chain, "store forwarding", "", ""},
		{"a store and a load of it", "48890b 488b0b", "", "store forwarding", "", ""},
		// vaddps ymm5, ymm6, ymm7; sqrtps xmm3, xmm4, or vsqrtps
		{"legacy beside wide", "c5cc58ef 0f51dc", "c5cc58ef c5f851dc", "SSE and AVX mixed", "", ""},
		// the same beside a chain of eight vmulps ymm0, ymm0, ymm1
		{"the same beside a longer chain of vectors", "c5cc58ef 0f51dc" + strings.Repeat("c5fc59c1", 8), "c5cc58ef c5f851dc" + strings.Repeat("c5fc59c1", 8),
			"SSE and AVX mixed", "", ""},
		// vaddps xmm5, xmm6, xmm7; sqrtps xmm3, xmm4
		{"legacy beside narrow", "c5c858ef 0f51dc", "", "SSE and AVX mixed", "", ""},
		// mov [rbx], rcx; mov rdx, [rbx+0x1000], or +0x10c0; and rdx, 0; add rbx, rdx: no pointer to move
		{"an alias of one pointer", "48890b 488b9300100000 4883e200 4801d3", "48890b 488b93c0100000 4883e200 4801d3", "4K aliasing", "", ""},
		// xor edx, edx; div ecx
		{"a division", "31d2 f7f1", "31d2 f7f1", "operand values", "rax=0xffffffff,rcx=1", "rax=1,rcx=1"},
		{"a multiplication", "480fafc3", "480fafc3", "operand values", "rbx=-1", "rbx=0"}, // imul rax, rbx
		{"a constant", "b801000000", "", "operand values", "", ""},                        // mov eax, 1
	} {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			init := initial.Paper()
			setup := profiler.Setup{CodeOffset: new(0), Init: &init, Frames: FramesEach, Tolerate: []verdict.Reason{
				verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.Nonlinear, verdict.Unstable}}
			median := func(hex, set string) float64 {
				s := setup
				if set != "" {
					s.Set = require.Get(initial.ParseSet(set))(t)
				}
				return asking{t, p, require.Hex(t, hex)}.median(s, cycles)
			}
			require.AtMost(t, 1, 3, func() string {
				f := only(t, p, require.Hex(t, b.hex), setup, b.cause)
				if b.partner == "" {
					if f.Outcome != experiment.Absent {
						return fmt.Sprintf("%+v", f)
					}
					return ""
				}
				cost := median(b.hex, b.set)/median(b.partner, b.partnersSet) - 1
				t.Logf("%s costs %.1f %%: %s", b.cause, 100*cost, f.Outcome)
				named := f.Outcome == stat.Confirmed
				if f.Effect == nil && b.set == "" || named && cost < mayNotName || !named && cost > mustName {
					return fmt.Sprintf("costs %.1f %%, and %+v", 100*cost, f)
				}
				return ""
			})
		})
	}
}

// only is what explain finds of one hypothesis.
func only(t *testing.T, p *profiler.Profiler, code []byte, setup profiler.Setup, cause string) experiment.Finding {
	t.Helper()
	all := hypotheses
	defer func() { hypotheses = all }()
	for i, h := range all {
		if h.name == cause {
			hypotheses = all[i : i+1]
		}
	}
	return findings(t, p, code, setup, experiment.Plan{Rounds: 5})[0]
}
