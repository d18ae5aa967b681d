package forms

import (
	"regexp"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
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
	require.Equal(t, "it", want, got)
	if all := Select(regexp.MustCompile("^vpternlogd$"), true); len(all) != 27 { // {k} and {k}{z} of each, and of a broadcast
		t.Errorf("%d forms with decoration, want 27: %q", len(all), names(all))
	}
	if gathers := Select(regexp.MustCompile("^vpgatherdd$"), false); len(gathers) != 5 {
		t.Errorf("%q: gathers are always masked", names(gathers))
	}
}
