package bounds

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func decode(t *testing.T, digits string) []asm.Inst {
	t.Helper()
	return require.Get(asm.Decode(require.Hex(t, digits)))(t)
}

// TestGroups: a block's cycles, with the named path and its documented latency.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		forwards  []invariants.Forward
		want      []string
		cycles    []float64
	}{
		{"none", "4889c3", nil, nil, nil},
		{"one", "480fafc0", nil, []string{"imul (3)"}, []float64{3}},
		{"through two", "480fafc3 4801c8", nil, []string{"imul (3) → add (1)"}, []float64{4}},
		{"cut by a constant", "b800000000 4801c8", nil, nil, nil},
		{"cut by an idiom", "31c0 4801c8", nil, nil, nil},
		{"two apart", "4801c8 4801ca", nil, []string{"add (1)", "add (1)"}, []float64{1, 1}},
		{"a register's cycle takes two iterations", "4889c2 4889d8 4889d3", nil, []string{"mov → mov → mov"}, []float64{0}},
		{"carry", "11c8", nil, []string{"adc (1)"}, []float64{1}},
		{"a load's address", "488b1b", nil, []string{"mov (5)"}, []float64{5}},
		{"through memory", "48890b 488b0b 4883c101", []invariants.Forward{{Store: 0, Load: 1}}, []string{"mov → mov (5) → add (1)"}, []float64{6}},
		{"into the next iteration", "488b0b 4883c101 48890b", []invariants.Forward{{Store: 2, Load: 0, Copies: 1}},
			[]string{"mov (5) → add (1) → mov"}, []float64{6}},
		{"an instruction of unknown latency", "f30f5ec1", nil, []string{"divss (?)"}, []float64{0}},
		{"of two ways that take as long, the shorter", "480fafc0 4801c8 4889c2 4801d0", nil, []string{"imul (3) → add (1) → add (1)"}, []float64{5}},
	} {
		insts := decode(t, c.hex)
		q := &question{insts: insts, base: profiler.Result{Host: &profiler.HostReport{CPU: profiler.CPU{Microarchitecture: "Redwood Cove"}}}}
		var got []string
		var cycles []float64
		for _, g := range groups(len(insts), dependencies(insts, c.forwards)) {
			r, _ := q.describe(g)
			got, cycles = append(got, r.Text), append(cycles, r.Documented)
		}
		require.Equal(t, c.name, c.want, got)
		require.Equal(t, c.name, c.cycles, cycles)
	}
}

// TestGroupsOfLongBlock: a chain takes time quadratic in its length; cubic would be 10¹² steps here.
func TestGroupsOfLongBlock(t *testing.T) {
	const n = 4000
	var chain []dependency
	for i := range n {
		chain = append(chain, dependency{from: i, to: (i + 1) % n, copies: (i + 1) / n})
	}
	got := groups(n, chain)
	if len(got) != 1 || len(got[0]) != n || len(got[0].carried()) != 1 {
		t.Errorf("%d groups", len(got))
	}
}

// TestProbes: a probe is one instruction that writes only what the block leaves free, from what the block does not write.
func TestProbes(t *testing.T) {
	for _, p := range classes {
		for _, r := range []room{
			{scratch: 15, fixed: int(asm.RSP), vector: 13, still: 12, disp: 0x480},
			{scratch: 1, fixed: 3, vector: 4, still: 5, disp: -0x480},
		} {
			if strings.HasSuffix(p.name, "again") {
				continue
			}
			insts := require.Get(asm.Decode(p.code(r, 1)))(t)
			reads, writes := insts[0].Dataflow()
			writes.Flags = 0
			free := asm.Values{GPR: 1 << r.scratch, Vector: 1 << r.vector}
			still := asm.Values{GPR: 1 << r.fixed, Vector: 1 << r.still}
			if mnemonic, _, _ := strings.Cut(p.text, " "); len(insts) != 1 || insts[0].Mnemonic != mnemonic ||
				reads.Without(still) != (asm.Values{}) || writes.Without(free) != (asm.Values{}) {
				t.Errorf("%s: %s", p.name, insts[0].Text())
			}
		}
		if code := p.code(room{scratch: none, fixed: none, vector: none, still: none}, 0); code != nil {
			t.Errorf("%s without a register: %x", p.name, code)
		}
	}
}

// madeUp is a core that executes six instructions, three loads, two stores, one multiplication and two vector
// operations per cycle, knows one chain, and eliminates zeroing idioms alone.
type madeUp struct {
	fuses  bool   // two nops share a slot
	chain  string // text of the instruction that waits for itself
	takes  float64
	cut    string // text of the instruction that cuts the chain
	change func(r *profiler.Result, texts []string)
}

// multiplyChain is a core on which imul rax, rax waits for itself.
var multiplyChain = madeUp{chain: "imul rax, rax", takes: 3, cut: "mov eax, 0x12345600"}

func (m madeUp) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	insts, err := asm.Decode(b.Code)
	if err != nil {
		return profiler.Result{}, err
	}
	count := map[string]float64{}
	var all []string
	for i := range insts {
		text := insts[i].Text()
		all = append(all, text)
		count[text]++
		loads, stores := insts[i].Accesses()
		switch {
		case loads:
			count["load"]++
		case stores:
			count["store"]++
		case insts[i].Mnemonic == "imul":
			count["multiply"]++
		case insts[i].Mnemonic == "vxorps":
		case m.fuses && insts[i].Mnemonic == "nop":
			count["fused"]++
		case strings.Contains(text, "xmm"):
			count["vector"]++
		}
	}
	chain := m.takes * count[m.chain]
	if count[m.cut] > 0 {
		chain = 0
	}
	cycles := max((float64(len(insts))-count["fused"]/2)/6, count["load"]/3, count["store"]/2, count["multiply"], count["vector"]/2, chain)
	r := profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles * 0.998, CIHigh: cycles * 1.002, Init: initial.Paper(),
		Predicted: &invariants.Prediction{}, Host: &profiler.HostReport{CPU: profiler.CPU{DispatchWidth: 6, Microarchitecture: "Redwood Cove"}}}
	if m.change != nil {
		m.change(&r, all)
	}
	return r, nil
}

// answer finds the bounds of a block at 0x401000.
func answer(t *testing.T, core madeUp, digits string, parts bool) Answer {
	t.Helper()
	block := profiler.Block{Code: require.Hex(t, digits), Setup: profiler.Setup{Address: new(uint64(0x401000))}}
	return require.Get(Find(context.Background(), core, block, parts))(t)
}

// taken closes the block's own loop.
func taken(r *profiler.Result, _ []string) { r.Branch = &profiler.BranchReport{As: profiler.Taken} }

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		core      madeUp
		want      []Kind
		says      string
	}{
		{"a chain", "480fafc0", multiplyChain, []Kind{Chain},
			"bound by a carried chain of 3.0 cycles: imul (3);"},
		{"a chain that cutting does not end", "480fafc0", madeUp{chain: "imul rax, rax", takes: 3}, []Kind{None}, "bound by no chain"},
		{"loads", "488b03 488b4b08 488b5310", madeUp{}, []Kind{Class}, "bound by the units for load;"},
		{"multiplications", "480fafcb 4889c3", madeUp{}, []Kind{Class}, "bound by the units for multiply;"},
		{"vectors", "0f54c1 0f54d1 0f54d9", madeUp{}, []Kind{Class},
			"bound by the units for vector integer, vector add, vector multiply, shuffle, vector to general, general to vector and divide;"},
		{"slots", strings.Repeat("90", 12), madeUp{}, []Kind{FrontEnd}, "bound by the front end at 6.00 instructions a cycle;"},
		{"slots of nops in pairs", strings.Repeat("90", 12), madeUp{fuses: true}, []Kind{FrontEnd}, "bound by the front end at 12.00 instructions a cycle;"},
		{"slots of moves, where nops find room", strings.Repeat("4889c3", 6), madeUp{fuses: true}, []Kind{FrontEnd},
			"bound by the front end at 6.00 instructions a cycle;"},
		{"a taken branch", "48ffc8 75fb", madeUp{chain: "dec rax", takes: 1, change: taken}, []Kind{Branches}, "bound by one taken branch a cycle;"},
		{"a taken branch, and a chain of twice the time", "480fafc0 75fa", madeUp{chain: "imul rax, rax", takes: 2, cut: "mov eax, 0x12345600", change: taken},
			[]Kind{Chain}, "bound by a carried chain of 2.0 cycles: imul"},
		{"both", "480fafc1 9090909090", madeUp{}, []Kind{Class, FrontEnd}, "bound by the units for multiply; and by the front end"},
	} {
		a := answer(t, c.core, c.hex, true)
		if d := cmp.Diff(c.want, a.Bounds); d != "" || !strings.HasPrefix(a.Sentence, c.says) {
			t.Errorf("%s: %q, want %q\n%s", c.name, a.Sentence, c.says, d)
		}
		a.Base.Init.Set = "rbx=0x1"
		row, last := a.Row(), len(Columns())-1
		if len(row)-1 != last || row[last-1] != "0x401000" || row[last] != "rbx=0x1" {
			t.Errorf("%s: %q for %q", c.name, row, Columns())
		}
	}
}

// TestSlack: the number of free probes is exact to one instruction for every block.
func TestSlack(t *testing.T) {
	a := answer(t, multiplyChain, "480fafc0", true)
	want := map[string]float64{"nop": 17, "load": 9, "store": 6, "multiply": 2, "vector add": 6, "integer": 17}
	for class, free := range want {
		s := a.slackOf(class)
		if s == nil || s.FreeLow > free || s.FreeHigh < free || s.FreeHigh-s.FreeLow > 1 || s.Room < free-1 || s.Room > free+1 {
			t.Errorf("%s: %+v, want %g free", class, s, free)
		}
	}
}

func count(texts []string, mnemonic string) (n float64) {
	for _, text := range texts {
		if strings.HasPrefix(text, mnemonic) {
			n++
		}
	}
	return n
}

// TestUntestedJSON: a class that could not be tested has no numbers.
func TestUntestedJSON(t *testing.T) {
	for want, s := range map[string]Slack{
		`{"class":"nop","probe":"nop","untested":"why"}`:                                             {Class: "nop", Probe: "nop", FreeLow: 1, Untested: "why"},
		`{"class":"nop","probe":"nop","free_low":0,"free_high":1,"slope":0,"room":0,"free_share":0}`: {Class: "nop", Probe: "nop", FreeHigh: 1},
	} {
		got, err := json.Marshal([]Slack{s})
		require.NoError(t, err)
		require.Equal(t, "JSON", "["+want+"]", string(got))
	}
}

// TestSlackInTheWay: probes that only delay the block's own work do not fill a class; two equal chains are named.
func TestSlackInTheWay(t *testing.T) {
	// multiplications, three per cycle, delay the adds: the first cost 0.23 cycles each, later ones 1/3
	core := madeUp{chain: "add rcx, rcx", takes: 1, change: func(r *profiler.Result, texts []string) {
		if n := count(texts, "imul"); count(texts, "add") > 0 {
			r.Cycles = max(r.Cycles-n, n/3, count(texts, "add")/2+0.23*n)
		}
	}}
	a := answer(t, core, "4801c94801d2", false)
	if s := a.slackOf("multiply"); s.Room < 2 || s.Slope < 0.3 || !strings.HasPrefix(a.Sentence, "bound by 2 carried chains of as many cycles") {
		t.Errorf("%s\n%+v", a.Sentence, s)
	}
}

// TestOneWord: a store that breaks what the block forwards is no full unit.
func TestOneWord(t *testing.T) {
	for slope, want := range map[float64]string{1: "bound by the units for stores to one word;", 18: "bound by no chain"} {
		a := Answer{Base: profiler.Result{Cycles: 1}, Slack: []Slack{{Class: "nop", Share: 0.6, Slope: 1. / 6}, {Class: storeAgain, Slope: slope}}}
		if a.conclude(); !strings.HasPrefix(a.Sentence, want) {
			t.Errorf("where a further store takes %g cycles: %s", slope, a.Sentence)
		}
	}
}

// TestFree: what costs nothing is free, although more of it delays the block.
func TestFree(t *testing.T) {
	core := madeUp{chain: "imul rax, rax", takes: 3, change: func(r *profiler.Result, texts []string) {
		copies := count(texts, "imul")
		if n := count(texts, "nop"); n > 8*copies {
			r.Cycles += 3*copies + (n-8*copies)/2 // the line through later ones meets the time of none at 2
		}
	}}
	a := answer(t, core, "480fafc0", false)
	if s := a.slackOf("nop"); s == nil || s.FreeLow < 7 || s.Room < s.FreeLow || s.Share == 0 {
		t.Errorf("%+v", s)
	}
}

// TestTogether: of chains of equal length each one's saving is that where all others are cut.
func TestTogether(t *testing.T) {
	core := madeUp{change: func(r *profiler.Result, texts []string) {
		uncut := func(register string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, "mov "+register) })
		}
		if r.Cycles = 0.7; uncut("ecx") || uncut("edx") || uncut("esi") {
			r.Cycles = 1
		}
	}}
	a := answer(t, core, "4801c9 4801d2 4801f6", false)
	for _, c := range a.Chains {
		if !c.Binds || !c.Together || math.Abs(c.Saved.Cycles-0.3) > 0.01 {
			t.Errorf("%+v saves %+v, want 0.3 together", c, c.Saved)
		}
	}
	if want := "bound by 3 carried chains of 1.0 cycles, such as add (1)"; !strings.HasPrefix(a.Sentence, want) {
		t.Errorf("%q, want %q", a.Sentence, want)
	}
}

// TestParts: an instruction that others need is replaced by constants, if possible.
func TestParts(t *testing.T) {
	without := func(reason verdict.Reason, needed ...string) madeUp {
		return madeUp{change: func(r *profiler.Result, texts []string) {
			if !slices.ContainsFunc(needed, func(text string) bool { return slices.Contains(texts, text) }) {
				*r = profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason}}
			}
		}}
	}
	// lea rbx, [rax]; mov rcx, [rbx]; paddd xmm0, xmm1: the load needs the lea
	a := answer(t, without(verdict.Unmappable, "lea rbx, [rax]", "mov ebx, 0x12345600"), "488d18 488b0b 660ffec1", true)
	if len(a.Parts) != 3 || a.Parts[0].Replaced == "" || a.Parts[0].Saved == nil || a.Parts[1].Replaced != "" || a.Parts[2].Saved == nil {
		t.Errorf("%+v", a.Parts)
	}
	a = answer(t, without(verdict.SIGFPE, "paddd xmm0, xmm1"), "4801c8 660ffec1", true)
	if p := a.Parts[1]; p.Saved != nil || !strings.Contains(p.Untested, "sigfpe") {
		t.Errorf("%+v", p)
	}
}

func TestRoom(t *testing.T) {
	const all = "4801c1 4801da 4801fe 4d01c1 4d01d3 4d01e5 4d01f7 4801ed" // every register but rsp is read or written
	for _, c := range []struct {
		hex            string
		scratch, fixed int
	}{
		{"4801c8", 15, int(asm.RSP)},
		{"4801c8 4d01ff", 14, int(asm.RSP)},
		{"4801c8 50", 15, 1}, // rsp moves; rcx is read only
		{all, none, int(asm.RSP)},
		{all + "50", none, int(asm.RAX)},
	} {
		r := roomOf(decode(t, c.hex))
		if r.scratch != c.scratch || r.fixed != c.fixed && !(c.scratch != none && c.fixed == 1) {
			t.Errorf("%s: scratch %d, fixed %d; want %d, %d", c.hex, r.scratch, r.fixed, c.scratch, c.fixed)
		}
	}
}

// TestSlackDisturbed: one disturbed measurement does not fill a class that the search found to have more room.
func TestSlackDisturbed(t *testing.T) {
	core := multiplyChain
	core.change = func(r *profiler.Result, texts []string) {
		if count(texts, "nop") == 3 {
			r.Cycles *= 1.06
		}
	}
	a := answer(t, core, "480fafc0", false)
	require.Equal(t, fmt.Sprintf("%s\n%+v", a.Sentence, a.slackOf("nop")), []Kind{Chain}, a.Bounds)
}
