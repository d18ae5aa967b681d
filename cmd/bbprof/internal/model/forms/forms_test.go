package forms

import (
	"context"
	"regexp"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
	"github.com/google/go-cmp/cmp"
)

func names(list []asm.Form) (names []string) {
	for i := range list {
		names = append(names, list[i].Name())
	}
	return names
}

func TestSelect(t *testing.T) {
	got := names(Select(regexp.MustCompile("^vpternlogd$"), false))
	want := []string{
		"vpternlogd xmm, xmm, xmm, i8", "vpternlogd xmm, xmm, m128, i8", "vpternlogd ymm, ymm, ymm, i8", "vpternlogd ymm, ymm, m256, i8",
		"vpternlogd zmm, zmm, zmm, i8", "vpternlogd zmm, zmm, m512, i8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if all := Select(regexp.MustCompile("^vpternlogd$"), true); len(all) != 27 { // {k} and {k}{z} of each, and of a broadcast
		t.Errorf("%d forms with decoration, want 27: %q", len(all), names(all))
	}
	if gathers := Select(regexp.MustCompile("^vpgatherdd$"), false); len(gathers) != 5 {
		t.Errorf("%q: gathers are always masked", names(gathers))
	}
}

// rejecting runs nothing that begins with a VEX prefix.
type rejecting struct{}

func (rejecting) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	if b.Code[0] == 0xc5 {
		return profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.SIGILL}}, nil
	}
	return profiler.Result{Status: profiler.OK}, nil
}

func TestSupported(t *testing.T) {
	list := Select(regexp.MustCompile("^v?(paddb|cpuid)$"), false)
	has, err := Supported(context.Background(), rejecting{}, list)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, ok := range has {
		if ok {
			got = append(got, list[i].Name())
		}
	}
	want := []string{"paddb mm, mm", "paddb mm, m64", "paddb xmm, xmm", "paddb xmm, m128", "{evex} vpaddb xmm, xmm, xmm", "{evex} vpaddb xmm, xmm, m128",
		"{evex} vpaddb ymm, ymm, ymm", "{evex} vpaddb ymm, ymm, m256", "vpaddb zmm, zmm, zmm", "vpaddb zmm, zmm, m512"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
