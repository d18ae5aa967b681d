package mapping

import (
	"testing"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// TestRepeated: a string instruction that will need too many pages is rejected at its first fault, and no other is.
func TestRepeated(t *testing.T) {
	const pages = 100
	stos, movs, cmps, scas, lods := []byte{0xf3, 0xaa}, []byte{0xf3, 0xa4}, []byte{0xf3, 0x48, 0xa7}, []byte{0xf3, 0xaf}, []byte{0xf3, 0x48, 0xad}
	count := func(n uint64) []byte { return set(rcx, n) }
	toEnd := count(pages*layout.PageSize - 0x600) // of the last page that there may be
	fill := set(rax, 0x1234_5600)
	few := []byte{0x67, 0xf3, 0xaa}
	std := []byte{0xfd}
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
		{"stos downwards", code(std, stos), 1, verdict.TooManyPages},
		{"stos downwards to the last page", code(std, count((pages-1)*layout.PageSize+0x601), stos), 0, ""},
		{"stos downwards one byte further", code(std, count((pages-1)*layout.PageSize+0x602), stos), 1, verdict.TooManyPages},
		{"stos downwards across two pages", code(std, set(rdi, 0x1234_4ffd), count((pages-1)*layout.PageSize/8-1), []byte{0xf3, 0x48, 0xab}), 0, ""},
		{"stos downwards across two pages, once more", code(std, set(rdi, 0x1234_4ffd), count((pages-1)*layout.PageSize/8+1), []byte{0xf3, 0x48, 0xab}), 1, verdict.TooManyPages},
		{"stos downwards into the own region", code(std, set(rdi, layout.End+50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"stos downwards beyond address 0", code(std, set(rdi, 50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"stos by 32-bit addresses", few, 1, verdict.TooManyPages},
		{"stos by 32-bit addresses across 4 GiB", code(set(rdi, 1<<32-60*layout.PageSize), few), 0, verdict.TooManyPages},
		{"stos by 32-bit addresses, few by ecx", code(count(1<<32+10*layout.PageSize), few), 0, ""},
		{"stos into the own region", code(set(rdi, layout.Base-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"stos to the end of user space", code(set(rdi, layout.UserEnd-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"movs", code(set(rdi, 0x2000_0010), movs), 1, verdict.TooManyPages},
		{"movs that overtakes itself", code(set(rdi, 0x1234_5600+200*layout.PageSize), movs), 1, verdict.TooManyPages},
		{"movs, one side into the own region", code(set(rdi, layout.Base-30*layout.PageSize), movs), 0, verdict.Unmappable},
		{"movs downwards", code(std, set(rdi, 0x2000_0010), movs), 1, verdict.TooManyPages},
		{"cmps", cmps, 1, verdict.TooManyPages},
		{"cmps downwards", code(std, cmps), 1, verdict.TooManyPages},
		{"cmps of two ranges", code(set(rdi, 0x2000_0008), cmps), 1, verdict.TooManyPages},
		{"cmps after a store that it meets", code(set(rdi, 0x2000_0408), []byte{0xc6, 0x87, 0, 4, 0, 0, 0x01}, cmps), 0, ""},
		{"cmps that finds a difference", code(set(rdi, 0x2000_0001), cmps), 0, ""},
		{"scas", code(set(rax, 0x0000_0000), set(rdi, 0x1234_5604), []byte{0xf3, 0xae}), 0, ""},
		{"scas of all alike", code(fill, []byte{0xf2, 0xae}), 0, ""},
		{"scas of four bytes", code(fill, scas), 0, ""},
		{"scas that finds nothing", code(set(rax, 0x99), []byte{0xf2, 0xae}), 1, verdict.TooManyPages},
		{"scas that finds all alike, downwards", code(std, fill, []byte{0xf3, 0x48, 0xaf}), 1, verdict.TooManyPages},
		{"lods", lods, 1, verdict.TooManyPages},
	} {
		t.Run(b.name, func(t *testing.T) {
			p := usual
			p.Pages = pages
			_, _, m, err := mapReal(t, child(t), p, 1, b.code)
			if reason := reasonOf(err); reason != b.want || err != nil && reason == "" {
				t.Errorf("%v, want %q", err, b.want)
			}
			p.Frames = 4 // which hold the same here
			if _, _, more, err := mapReal(t, child(t), p, 1, b.code); reasonOf(err) != b.want {
				t.Errorf("on 4 frames: %v after %d stops, want %q", err, more.Stops, b.want)
			}
			if b.stops > 0 && m.Stops != b.stops {
				t.Errorf("%d stops, want %d", m.Stops, b.stops)
			}
		})
	}
}
