package mapping

import (
	"testing"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// TestRepeated: a string instruction that will ask for too many pages is rejected as soon as it asks for one, and no other.
func TestRepeated(t *testing.T) {
	const pages = 100
	stos, movs, cmps, scas, lods := []byte{0xf3, 0xaa}, []byte{0xf3, 0xa4}, []byte{0xf3, 0x48, 0xa7}, []byte{0xf3, 0xaf}, []byte{0xf3, 0x48, 0xad}
	count := func(n uint64) []byte { return set(rcx, n) }
	toEnd := count(pages*layout.PageSize - 0x600) // of the last page that there may be
	fill := set(rax, 0x1234_5600)
	few := []byte{0x67, 0xf3, 0xaa}
	for _, b := range []struct {
		name  string
		code  []byte
		stops int // 0: not to be told beforehand
		want  verdict.Reason
	}{
		{"stos", stos, 1, verdict.TooManyPages},
		{"stos to the last page", code(toEnd, stos), 0, ""},
		{"stos one byte further", code(toEnd, []byte{0x48, 0xff, 0xc1}, stos), 1, verdict.TooManyPages},
		{"stos twice", code(count(60*layout.PageSize), stos, count(60*layout.PageSize), stos), 0, verdict.TooManyPages},
		{"stos within few pages", code(count(10*layout.PageSize), stos), 0, ""},
		{"stos downwards", code([]byte{0xfd}, stos), 0, verdict.TooManyPages},
		{"stos by 32-bit addresses", few, 0, verdict.TooManyPages},
		{"stos into the own region", code(set(rdi, layout.Base-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"stos to the end of user space", code(set(rdi, layout.UserEnd-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"movs", code(set(rdi, 0x2000_0010), movs), 1, verdict.TooManyPages},
		{"movs that overtakes itself", code(set(rdi, 0x1234_5600+200*layout.PageSize), movs), 1, verdict.TooManyPages},
		{"movs, one side into the own region", code(set(rdi, layout.Base-30*layout.PageSize), movs), 0, verdict.Unmappable},
		{"cmps", cmps, 0, verdict.TooManyPages},
		{"cmps of two ranges", code(set(rdi, 0x2000_0008), cmps), 0, verdict.TooManyPages},
		{"cmps that finds a difference", code(set(rdi, 0x2000_0001), cmps), 0, ""},
		{"scas", code(set(rax, 0x0000_0000), set(rdi, 0x1234_5604), []byte{0xf3, 0xae}), 0, ""},
		{"scas of all alike", code(fill, []byte{0xf2, 0xae}), 0, ""},
		{"scas of four bytes", code(fill, scas), 0, ""},
		{"lods", lods, 1, verdict.TooManyPages},
	} {
		t.Run(b.name, func(t *testing.T) {
			p := usual
			p.Pages = pages
			_, _, m, err := mapReal(t, child(t), p, 1, b.code)
			if reason := reasonOf(err); reason != b.want || err != nil && reason == "" {
				t.Errorf("%v, want %q", err, b.want)
			}
			if b.stops > 0 && m.Stops != b.stops {
				t.Errorf("%d stops, want %d", m.Stops, b.stops)
			}
		})
	}
}
