package mapping

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// TestRepeatedLikeOneByOne: pages that are mapped at once change no outcome, only how often the child stops.
func TestRepeatedLikeOneByOne(t *testing.T) {
	const pages = 100
	stos, movs, cmps, scas, lods := []byte{0xf3, 0xaa}, []byte{0xf3, 0xa4}, []byte{0xf3, 0x48, 0xa7}, []byte{0xf3, 0xaf}, []byte{0xf3, 0x48, 0xad}
	count := func(n uint64) []byte { return set(rcx, n) }
	toEnd := count(pages*layout.PageSize - 0x600) // of the last page that there may be
	fill := set(rax, 0x1234_5600)
	few := []byte{0x67, 0xf3, 0xaa}
	for _, b := range []struct {
		name string
		code []byte
		most int // stops; 0: not to be told beforehand
		want verdict.Reason
	}{
		{"stos", stos, 36, verdict.TooManyPages},
		{"stos to the last page", code(toEnd, stos), 0, ""},
		{"stos one byte further", code(toEnd, []byte{0x48, 0xff, 0xc1}, stos), 36, verdict.TooManyPages},
		{"stos twice", code(count(60*layout.PageSize), stos, count(60*layout.PageSize), stos), 0, verdict.TooManyPages},
		{"stos within few pages", code(count(10*layout.PageSize), stos), 0, ""},
		{"stos downwards", code([]byte{0xfd}, stos), 0, verdict.TooManyPages},
		{"stos by 32-bit addresses", few, 0, verdict.TooManyPages},
		{"stos into the own region", code(set(rdi, layout.Base-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"stos to the end of user space", code(set(rdi, layout.UserEnd-50*layout.PageSize), stos), 0, verdict.Unmappable},
		{"movs", code(set(rdi, 0x2000_0010), movs), 38, verdict.TooManyPages},
		{"movs that overtakes itself", code(set(rdi, 0x1234_5600+200*layout.PageSize), movs), 38, verdict.TooManyPages},
		{"movs, one side into the own region", code(set(rdi, layout.Base-30*layout.PageSize), movs), 0, verdict.Unmappable},
		{"cmps", cmps, 38, verdict.TooManyPages},
		{"cmps of two ranges", code(set(rdi, 0x2000_0008), cmps), 38, verdict.TooManyPages},
		{"cmps that finds a difference", code(set(rdi, 0x2000_0001), cmps), 0, ""},
		{"scas", code(set(rax, 0x0000_0000), set(rdi, 0x1234_5604), []byte{0xf3, 0xae}), 0, ""},
		{"scas of all alike", code(fill, []byte{0xf2, 0xae}), 0, ""},
		{"scas of four bytes", code(fill, scas), 0, ""},
		{"lods", lods, 36, verdict.TooManyPages},
	} {
		t.Run(b.name, func(t *testing.T) {
			p := usual
			p.Pages = pages
			got := outcomeOf(t, p, b.code)
			p.OneByOne = true
			want := outcomeOf(t, p, b.code)
			if got.Rejected.Reason != b.want {
				t.Errorf("reason %q, want %q", got.Rejected.Reason, b.want)
			}
			if b.most > 0 && got.stops > b.most {
				t.Errorf("%d stops, want at most %d; one by one %d", got.stops, b.most, want.stops)
			}
			got.stops, want.stops = 0, 0
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type outcome struct {
	Rejected verdict.Rejection
	Pages    []mapper.Page // of a block that runs
	Count    int           // of them, whether it does or not
	stops    int
}

func outcomeOf(t *testing.T, p Plan, code []byte) (o outcome) {
	t.Helper()
	_, _, m, err := mapReal(t, child(t), p, 1, code)
	if r := (*verdict.Rejection)(nil); errors.As(err, &r) {
		o.Rejected = *r
	} else if err != nil {
		t.Fatal(err)
	} else {
		o.Pages = m.Pages
	}
	o.Count, o.stops = len(m.Pages), m.Stops
	return o
}

// TestPassageUnproved: a block that ends while pages are there that it has not asked for is searched again.
func TestPassageUnproved(t *testing.T) {
	p, im := plan(t, 0xf3, 0xaa) // rep stosb
	p.Pages = 100
	var faults []tracee.Stop
	for i := range uint64(steadyPages + 1) {
		stop := fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x10_0000+i*layout.PageSize)
		stop.Regs.GPR[rdi], stop.Regs.GPR[rcx] = stop.Addr, 1<<30-i*layout.PageSize
		faults = append(faults, stop)
	}
	done := tracee.Stop{Done: true, FailedOp: -1}
	elsewhere := fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x50_0000)
	elsewhere.Regs.GPR[rdi], elsewhere.Regs.GPR[rcx] = elsewhere.Addr, 1<<30-0x40_0000+1 // not as many rounds
	for name, end := range map[string]tracee.Stop{"done": done, "another fault": elsewhere} {
		script := append(append(append([]tracee.Stop{}, faults...), end), append(faults, done)...)
		m, err := mapPages(&fake{t: t, image: im, script: script}, p, im)
		if err != nil || len(m.Pages) != len(faults) || m.Stops != len(script) {
			t.Errorf("%s: %v, %d pages after %d stops, want %d after %d", name, err, len(m.Pages), m.Stops, len(faults), len(script))
		}
	}
}
