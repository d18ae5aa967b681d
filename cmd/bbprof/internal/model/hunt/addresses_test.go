package hunt

import (
	"context"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/require"
)

// TestOnlyKeepsAddresses: the remaining instructions keep their addresses, or the candidate is not tried.
func TestOnlyKeepsAddresses(t *testing.T) {
	for _, test := range []struct {
		name, block string
		kept        []int
		want        Case
	}{
		{"a rip-relative operand behind what is taken out: mov rax, [rip+0xd1f2e]; add rax, 7; mov [rip+0xd1f23], rax",
			"488b052e1f0d004883c007488905231f0d00", []int{0, 2}, Case{Hex: "488b052e1f0d00488905271f0d00"}},
		{"a pointer that was computed: lea rdi, [rsi+8]; mov [rdi], rax; mov rbx, [rsi+8]",
			"488d7e08488907488b5e08", []int{1, 2}, Case{"488907488b5e08", "rdi=0x12406688"}},
		{"a pointer that was loaded: mov rcx, [rsi]; mov rax, [rbx+rcx*8]", "488b0e488b04cb", []int{1}, Case{"488b04cb", "rcx=0x12345600"}},
		{"a pointer that moves: add rsi, 8; mov rax, [rsi]", "4883c608488b06", []int{1}, Case{}},
		{"a pointer that nobody knows: popcnt rcx, rcx; mov rax, [rcx]", "f3480fb8c9488b01", []int{1}, Case{}},
		{"an unknown pointer of its own: popcnt rcx, rcx; mov rax, [rcx]; add rdx, 1", "f3480fb8c9488b014883c201", []int{0, 1}, Case{Hex: "f3480fb8c9488b01"}},
		{"a dividend: xor edx, edx; div rcx", "31d248f7f1", []int{1}, Case{}},
		{"pushes that move by less: push rbp; push rbx; add rax, rcx; mov rdx, [rsi]", "55534801c8488b16", []int{0, 3}, Case{Hex: "55488b16"}},
		{"a push that is loaded: push rbp; push rbx; mov rdx, [rsp]", "5553488b1424", []int{1, 2}, Case{}},
		{"a register in no address: add rax, 7; imul rbx, rax", "4883c007480fafd8", []int{1}, Case{Hex: "480fafd8"}},
		{"a displacement too far: add rax, 7; mov rbx, [rip+0x7fffffff]", "4883c007488b1dffffff7f", []int{1}, Case{}},
	} {
		got := Case{}
		if b := newBlock(test.block).only(test.kept); b != nil {
			got = b.asCase()
		}
		require.Equal(t, test.name, test.want, got)
	}
}

// TestExchangedKeepsAddresses: a longer instruction moves later ones, but not their operands.
func TestExchangedKeepsAddresses(t *testing.T) {
	b := newBlock("4883c007488905231f0d00").exchanged(0, []byte{0x48, 0x05, 7, 0, 0, 0}) // add rax, 7 in six bytes
	if b == nil || b.hex != "480507000000488905211f0d00" {
		t.Errorf("got %+v", b)
	}
}

// overlaps takes 19 cycles if a load overlaps a store only in part, else 7.5; the model always says 7.5.
type overlaps struct{}

func (overlaps) Measure(_ context.Context, blocks []Case, _ How) (list []Measurement, err error) {
	for _, c := range blocks {
		cycles := 7.5
		b := newBlock(c.Hex)
		for _, store := range b.addresses() {
			for _, load := range b.addresses() {
				if len(store) > 0 && len(load) > 0 && 0 < store[0].Addr-load[0].Addr && store[0].Addr-load[0].Addr < 8 {
					cycles = 19
				}
			}
		}
		if len(b.insts) == 3 {
			cycles = 10
		}
		list = append(list, Measurement{Cycles: cycles, Low: cycles, High: cycles})
	}
	return list, nil
}

func (overlaps) Predict(_ context.Context, blocks []string) ([]score.Prediction, error) {
	list := make([]score.Prediction, len(blocks))
	for i := range list {
		list[i].Cycles = 7.5
	}
	return list, nil
}

// TestShrinkingMakesNoStall: a load and a store of one address keep it when instructions between them are removed, so
// shrinking does not end at a partly overlapping pair.
func TestShrinkingMakesNoStall(t *testing.T) {
	const block = "488b052e1f0d004883c007488905231f0d00"
	found := require.Get(Hunt(t.Context(), overlaps{}, overlaps{}, []string{block}, Options{Threshold: 0.2, Seed: 1}))(t)
	if len(found.Classes) != 1 || found.Classes[0].Hex != block {
		t.Errorf("classes %+v, want the block itself", found.Classes)
	}
}
