package initial

import (
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0x12345608=0x1234560f", "0x12345608=0x1234560f"},
		{"16=7, 0x8=1", "0x8=0x1,0x10=0x7"},
		{"0xfffffffffffffff8=0xffffffffffffffff", "0xfffffffffffffff8=0xffffffffffffffff"},
		{"", "not ADDRESS=VALUE"},
		{"8", "not ADDRESS=VALUE"},
		{"rdi=1", "not ADDRESS=VALUE"},
		{"8=0x10000000000000000", "not ADDRESS=VALUE"},
		{"0x1c=1", "0x1c is not a multiple of 8: give the words at 0x18 and 0x20"},
		{"8=1,0x8=2", "0x8 is set twice"},
	} {
		m, err := ParseMemory(c.text)
		if got := m.String(); got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %q and error %v, want %q", c.text, got, err, c.want)
		}
	}
}
