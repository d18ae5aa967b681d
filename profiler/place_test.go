package profiler

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/verdict"
)

func TestPlaced(t *testing.T) {
	for _, tt := range []struct {
		hex  string
		at   uint64
		want string
	}{
		{"488b0510000000c3", 0, "488b0510000000c3"},
		{"488b0510000000c3", 0x401000, "488b0510000000c3"},
		{"488b051000000090488d0df0ffffff", 0x401123, "488b053301000090488d0d13010000"},
		{"488b05ffffff7f", 1, "488b05ffffff7f"}, // there is no displacement that is one more
		{"4801c0", 0x123, "4801c0"},
		{"06", 0x123, "06"},
	} {
		code, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, hex.EncodeToString(placed(code, tt.at))); diff != "" {
			t.Errorf("%s at %#x: -want +got:\n%s", tt.hex, tt.at, diff)
		}
		if diff := cmp.Diff(tt.hex, hex.EncodeToString(code)); diff != "" {
			t.Errorf("%s was changed: -want +got:\n%s", tt.hex, diff)
		}
	}
	code := []byte{0x66, 0x0f, 0x6f, 0x05, 0x01, 0, 0, 0} // movdqa xmm0, [rip+1]
	r := &verdict.Rejection{Inst: &verdict.Inst{Index: 0, Text: "movdqa xmm0, xmmword ptr [rip+0x8]"}}
	asWritten(r, code, 7)
	if diff := cmp.Diff("movdqa xmm0, xmmword ptr [rip+0x1]", r.Inst.Text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
