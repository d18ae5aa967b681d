package initial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

func TestParseSet(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"rdi=0x12346600", "rdi=0x12346600"},
		{" RSI = 16 ; rax=-1,", "rax=0xffffffffffffffff,rsi=0x10"},
		{"r15=0xffffffffffffffff,r8=0", "r8=0x0,r15=0xffffffffffffffff"},
		{"of=1,cf=1,zf=0", "cf=0x1,zf=0x0,of=0x1"},
		{"fill=0x3ff0000000000000,mxcsr=0xffff,k7=3,gs_base=0x7fffffffefff,fs_base=0",
			"fs_base=0x0,gs_base=0x7fffffffefff,k7=0x3,mxcsr=0xffff,fill=0x3ff0000000000000"},
		{"xmm0=0x" + strings.Repeat("f", 32), "xmm0=0x" + strings.Repeat("f", 32)},
		{"zmm31=0x1" + strings.Repeat("0", 127) + ",ymm2=0X00AB", "ymm2=0xab,zmm31=0x1" + strings.Repeat("0", 127)},
	} {
		s := set(t, c.text)
		require.Equal(t, c.text, c.want, s.String())
		require.Equal(t, c.text+", read back", c.want, set(t, s.String()).String())
	}
}

func TestParseSetRefuses(t *testing.T) {
	for _, row := range require.Table(t, "refused.txt") {
		text, want := row[0], row[1]
		if s, err := ParseSet(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", text, s, err, want)
		}
	}
}

func TestSetOver(t *testing.T) {
	s := set(t, "rdi=0x1,zf=1,fs_base=0x2,gs_base=0x3,ymm4=0x10000000000000005,k1=0x6,mxcsr=0x1f80,fill=0x7")
	got := s.Over(Paper())
	want := Paper()
	want.GPR[asm.RDI], want.Flags, want.FSBase, want.GSBase, want.Opmasks[1], want.MXCSR, want.Fill = 1, 1<<6, 2, 3, 6, 0x1f80, 7
	want.Vectors = []Vector{{4, 256, [8]uint64{5, 1}}}
	want.Set = s.String()
	require.Equal(t, "it", want, got)
	require.Equal(t, "over itself", want, s.Over(got))
	require.Equal(t, "nothing is set", Paper(), Set(nil).Over(Paper()))
}

func TestSetWith(t *testing.T) {
	all := set(t, "rdi=1,xmm3=0x1")
	require.Equal(t, "with", "rax=0x3,rdi=0x1,ymm3=0x2", all.With(set(t, "ymm3=0x2,rax=3")).String())
	require.Equal(t, "and", "rsi=0x2,rdi=0x1,xmm3=0x1", require.Get(all.And(set(t, "rsi=2")))(t).String())
	if _, err := all.And(set(t, "rdi=1")); err == nil {
		t.Error("rdi is set twice without an error")
	}
}

func set(t *testing.T, text string) Set {
	t.Helper()
	return require.Get(ParseSet(text))(t)
}

func TestParseMemory(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0x12345608=0x1234560f", "0x12345608=0x1234560f"},
		{"16=7, 0x8=1", "0x8=0x1,0x10=0x7"},
		{"0xfffffffffffffff8=0xffffffffffffffff", "0xfffffffffffffff8=0xffffffffffffffff"},
		{"", "not ADDRESS=VALUE"},
		{"8", "not ADDRESS=VALUE"},
		{"8=0x10000000000000000", "not ADDRESS=VALUE"},
		{"0x1c=1", "0x1c is not a multiple of 8: give the words at 0x18 and 0x20"},
	} {
		m, err := ParseMemory(c.text)
		if got := m.String(); got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %q and error %v, want %q", c.text, got, err, c.want)
		}
	}
}

// TestElements: each element of a page is the fill word's part and a step more than the one before, modulo 128.
func TestElements(t *testing.T) {
	for want, c := range map[uint64]struct {
		Elements
		address uint64
	}{
		0x12345600:         {Elements{}, 0x1008},
		0x0e0c0a0806040200: {Elements{Width: 1, Step: 2}, 0x12345400},
		0x1234560412345600: {Elements{Width: 4, Step: 4}, 0x1000},
		0x123457fc123457f8: {Elements{Width: 4, Step: 4}, 0x11f8},
		0x12345640:         {Elements{Width: 8, Step: 64}, 0x7408},
	} {
		require.Equal(t, fmt.Sprintf("%+v at %#x", c.Elements, c.address), want, (&State{Fill: paperWord, Elements: c.Elements}).Word(c.address))
	}
}
