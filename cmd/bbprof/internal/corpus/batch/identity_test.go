package batch

import "testing"

func TestIdentity(t *testing.T) {
	relative, plain := []byte{0x48, 0x8b, 0x05, 1, 0, 0, 0}, []byte{0x48, 0x01, 0xc0}
	for _, tt := range []struct {
		code []byte
		a, b uint64
		same bool
	}{
		{relative, 0x1010, 0x2010, true},
		{relative, 0x1010, 0x1020, false},
		{relative, 0, 0x1020, false},
		{relative, 0, 0x3000, true},
		{plain, 0x1010, 0x1020, true},
	} {
		if same := Identity(tt.code, tt.a, "") == Identity(tt.code, tt.b, ""); same != tt.same {
			t.Errorf("%x at %#x and %#x are the same: %t, want %t", tt.code, tt.a, tt.b, same, tt.same)
		}
	}
	for _, other := range []string{"", "rdi=0x1"} {
		if Identity(plain, 0, "rdi=0x2") == Identity(plain, 0, other) {
			t.Errorf("a block with rdi=0x2 is the same as with %q", other)
		}
	}
}
