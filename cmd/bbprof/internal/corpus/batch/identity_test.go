package batch

import "testing"

func TestIdentity(t *testing.T) {
	relative, plain := []byte{0x48, 0x8b, 0x05, 1, 0, 0, 0}, []byte{0x48, 0x01, 0xc0}
	at := func(address uint64) *uint64 { return &address }
	for i, tt := range []struct {
		code []byte
		a, b *uint64
		same bool
	}{
		{relative, at(0x1010), at(0x2010), true},
		{relative, at(0x1010), at(0x1020), false},
		{relative, nil, at(0x1020), false},
		{relative, nil, at(0x3000), false}, // its operands are aligned, not left in place
		{relative, at(0), at(0x3000), true},
		{plain, at(0x1010), at(0x1020), true},
		{plain, nil, at(0x1020), true},
	} {
		if same := Identity(tt.code, tt.a, "") == Identity(tt.code, tt.b, ""); same != tt.same {
			t.Errorf("case %d, %x: the same: %t, want %t", i, tt.code, same, tt.same)
		}
	}
	for _, other := range []string{"", "rdi=0x1"} {
		if Identity(plain, nil, "rdi=0x2") == Identity(plain, nil, other) {
			t.Errorf("a block with rdi=0x2 is the same as with %q", other)
		}
	}
}
