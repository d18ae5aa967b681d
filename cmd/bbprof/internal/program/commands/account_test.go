package commands

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestAccountLongTable: a file named by many rows is looked up once, since that takes longer than the rest of a row.
func TestAccountLongTable(t *testing.T) {
	const rows = 2000
	self := require.Get(os.Executable())(t)
	read := func(file func(row int) string) float64 {
		var text strings.Builder
		text.WriteString("hex,status,cycles,file,function,count\n")
		for n := range rows {
			fmt.Fprintf(&text, "4801c0,ok,1,%s,main,1\n", file(n))
		}
		a := accountCmd{files: []string{"-"}}
		return testing.AllocsPerRun(3, func() {
			if blocks, err := a.blocks(strings.NewReader(text.String())); err != nil || len(blocks) != rows {
				t.Fatalf("%d blocks, error %v", len(blocks), err)
			}
		})
	}
	one, many := read(func(int) string { return self }), read(func(n int) string { return fmt.Sprintf("%s%04d", self, n) })
	t.Logf("%.1f allocations a row, %.1f where each has a file of its own", one/rows, many/rows)
	if one > many/2 {
		t.Errorf("%.1f allocations a row, and %.1f where each has a file of its own", one/rows, many/rows)
	}
}

// TestAccountInPlace: cycles that branch records gave a block in its program are taken where there are any.
func TestAccountInPlace(t *testing.T) {
	const text = "hex,status,cycles,file,function,count,cycles_in_place\n4801c0,ok,1,f,main,2,3.5\n4801c8,ok,1,f,main,1,\n"
	a := accountCmd{files: []string{"-"}}
	blocks, err := a.blocks(strings.NewReader(text))
	if err != nil || len(blocks) != 2 || blocks[0].InPlace != 3.5 || blocks[1].InPlace != 0 {
		t.Errorf("%+v, %v", blocks, err)
	}
}
