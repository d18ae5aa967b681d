package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/verdict"
)

// L1IMiss infers that all code stays in L1I.
func L1IMiss(codeBytes, size int) Finding {
	if codeBytes > size {
		return Finding{Rejection: &verdict.Rejection{Reason: verdict.L1IMiss, Detail: fmt.Sprintf(
			"%d bytes of code run, and L1I holds %d; use fewer copies", codeBytes, size)}}
	}
	return held(verdict.L1IMiss, "%d bytes of code, of %d", codeBytes, size)
}

// CodeMisses counts the L1I misses of a repeated run of code at an address: where a set has more lines than ways,
// each line has been evicted when it is needed again.
func CodeMisses(at uint64, bytes, size int) int {
	const sets = page / line // a way holds a page on Intel, and on AMD from Zen 2 on
	var lines [sets]int
	for l := at / line; l <= (at+uint64(bytes)-1)/line && bytes > 0; l++ {
		lines[l%sets]++
	}
	misses := 0
	for _, n := range lines {
		if n > size/page {
			misses += n
		}
	}
	return misses
}
