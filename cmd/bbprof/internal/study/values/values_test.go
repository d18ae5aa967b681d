package values

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func decode(t *testing.T, text string) ([]byte, []asm.Inst) {
	t.Helper()
	code := require.Hex(t, text)
	return code, require.Get(asm.Decode(code))(t)
}

// TestInputs: what a block reads before it writes it, what each is, and what the block becomes so that its inputs are
// put back; an input with a star fades.
func TestInputs(t *testing.T) {
	for _, row := range require.Table(t, "inputs.txt") {
		code, insts := decode(t, row[1])
		inputs := inputsOf(insts, initial.Paper(), 0)
		becomes := refresh(code, insts, inputs, true)
		var got []string
		for _, in := range inputs {
			got = append(got, in.Name+map[bool]string{true: "*"}[in.Fading]+" "+string(in.Role))
		}
		require.Equal(t, row[0]+": inputs", row[2], strings.Join(got, ", "))
		require.Equal(t, row[0]+": becomes", row[3], asm.Text(require.Get(asm.Decode(becomes.dependent))(t)))
		if len(row) > 4 {
			require.Equal(t, row[0]+": without waiting", row[4], asm.Text(require.Get(asm.Decode(becomes.independent))(t)))
		}
	}
}

// TestAssignments: each value is one that the flags -set and -mem take, as wide as its input.
func TestAssignments(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		in   Input
		some []string
	}{
		{Input{Name: "rax", Role: Data}, []string{"ones rax=0xffffffffffffffff", "sign 32 rax=0x80000000"}},
		{Input{Name: "rsi", Role: Pointer}, []string{"+64 rsi=0x1040"}},
		{Input{Name: "rcx", Role: Count}, []string{"seven rcx=0x7"}},
		{Input{Name: "cf", Role: Data, kind: flag}, []string{"one cf=0x1"}},
		{Input{Name: "[0x10]", Role: Data, kind: memory, address: 16}, []string{"1.0 doubles 0x10=0x3ff0000000000000"}},
		{Input{Name: "xmm1", Role: Data, kind: vector, bits: 128}, []string{"1.0 singles xmm1=0x3f8000003f8000003f8000003f800000"}},
		{Input{Name: "xmm1", Role: Pointer, kind: vector, bits: 128, index: 4}, []string{"a line apart xmm1=0x00000018000000100000000800000000"}},
	} {
		var all []string
		for _, v := range c.in.assignments(0x1000, random) {
			all = append(all, v.name+" "+v.text)
			if c.in.kind == memory {
				require.Get(initial.ParseMemory(v.text))(t)
			} else {
				require.Get(initial.ParseSet(v.text))(t)
			}
		}
		for _, want := range c.some {
			require.Equal(t, want+" is among its values", true, slices.Contains(all, want))
		}
	}
}

// core is a profiler whose blocks take what cycles says of their state, with some noise.
type core struct {
	random *rand.Rand
	noise  float64
	cycles func(initial.State) profiler.Result
}

func (c *core) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	state := initial.Paper()
	if b.Setup.Init != nil {
		state = *b.Setup.Init
	}
	r := c.cycles(state)
	r.Cycles *= 1 + c.noise*c.random.NormFloat64()
	r.Init, r.Hex = state, hex.EncodeToString(b.Code)
	if r.Status == "" {
		r.Status = profiler.OK
	}
	return r, nil
}

// TestOutcomes: imul rax, [rsi], in states whose time depends on nothing, on rax, on what memory holds, on where rsi
// points, and in one that faults.
func TestOutcomes(t *testing.T) {
	code, _ := decode(t, "480faf06")
	flat := func(initial.State) profiler.Result { return profiler.Result{Cycles: 3} }
	slower := func(share float64, slow func(initial.State) bool) func(initial.State) profiler.Result {
		return func(s initial.State) profiler.Result {
			if slow(s) {
				return profiler.Result{Cycles: 3 * (1 + share)}
			}
			return profiler.Result{Cycles: 3}
		}
	}
	for _, c := range []struct {
		name   string
		noise  float64
		cycles func(initial.State) profiler.Result
		want   string
	}{
		{"nothing", 0.002, flat, "rax no effect, rsi no effect, [0x12345600] no effect, all no effect"},
		{"nothing that this noise shows", 0.1, flat, "rax unclear, rsi unclear, [0x12345600] unclear, all unclear"},
		{"the sign of rax", 0.001, slower(0.05, func(s initial.State) bool { return int64(s.GPR[asm.RAX]) < 0 }),
			"rax depends, rsi no effect, [0x12345600] no effect, all depends"},
		{"by less than counts", 0.001, slower(0.008, func(s initial.State) bool { return int64(s.GPR[asm.RAX]) < 0 }),
			"rax no effect, rsi no effect, [0x12345600] no effect, all no effect"},
		{"a word of memory", 0.001, slower(-0.1, func(s initial.State) bool { return len(s.Memory) > 0 && s.Memory[0].Value == 0 }),
			"rax no effect, rsi no effect, [0x12345600] depends, all depends"},
		{"addresses", 0.001, func(s initial.State) profiler.Result {
			return profiler.Result{Cycles: 3, Addresses: fmt.Sprint(s.GPR[asm.RSI])}
		}, "rax no effect, rsi addresses, [0x12345600] no effect, all no effect"},
		{"faults", 0, func(s initial.State) profiler.Result {
			if s.GPR[asm.RAX] != initial.Paper().GPR[asm.RAX] {
				return profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGFPE}
			}
			return profiler.Result{Cycles: 3}
		}, "rax untried, rsi no effect, [0x12345600] no effect, all untried"},
		{"nothing can be measured", 0, func(initial.State) profiler.Result {
			return profiler.Result{Status: profiler.Rejected, Reason: verdict.Unmappable}
		}, ""},
	} {
		p := &core{rand.New(rand.NewPCG(1, 2)), c.noise, c.cycles}
		s := require.Get(Run(context.Background(), p, profiler.Block{Code: code}, experiment.Plan{Rounds: DefaultRounds, Seed: 1}))(t)
		var got []string
		for _, f := range s.Inputs {
			got = append(got, f.Name+" "+string(f.Outcome))
		}
		require.Equal(t, c.name, c.want, strings.Join(got, ", "))
	}
}

// TestFixedRejected: without the fixed value there is no effect, and the reason is that value's.
func TestFixedRejected(t *testing.T) {
	ok, busy := profiler.Result{Status: profiler.OK, Cycles: 3}, profiler.Result{Status: profiler.Rejected, Reason: verdict.BusyCore}
	var s Sweep
	s.conclude(make([]arm, 2), [][]profiler.Result{{ok, busy, busy}, {ok, ok, ok}})
	for _, p := range s.Points {
		require.Equal(t, "not measured", Point{Status: string(profiler.Rejected), Reason: verdict.BusyCore}, p)
	}
}
