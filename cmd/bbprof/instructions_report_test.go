package main

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
)

// TestDisagreementPage: what is too fast and too slow is counted by kind, and each row has the command that measures it again.
func TestDisagreementPage(t *testing.T) {
	row := &instructions.Row{Name: "shlx r64, m64, r64", Opcode: "SHLX64rm"}
	of := func(kind instructions.Kind, model float64) instructions.Disagreement {
		code := []byte{0x48, 0x01, 0xc0}
		return instructions.Disagreement{Row: row, What: "latency 3 to 1", Kind: kind, Model: model, Block: "4801c0", Code: code, Flags: "-mode loop",
			Measured: instructions.Value{Cycles: 4, Low: 3.9, High: 4.1}}
	}
	page := string(disagreementPage("a <model>", []instructions.Disagreement{of(instructions.Latency, 8), of(instructions.Latency, 3), of(instructions.Throughput, 1)},
		map[instructions.Kind]int{instructions.Latency: 10, instructions.Throughput: 20}))
	for _, want := range []string{
		"a &lt;model&gt;",
		`<tr><td>latency<td class="n">10<td class="n">2<td class="n">1<td class="n">1<td class="n">1`,
		`<tr><td>throughput<td class="n">20<td class="n">1<td class="n">1<td class="n">0<td class="n">1`,
		`<summary>add rax, rax</summary><code>bbprof -init distinct -mode loop -hex 4801c0</code>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "through memory") {
		t.Error("a kind without numbers is in the table")
	}
}
