package debuggee

import "testing"

func TestMaps(t *testing.T) {
	all := parseMaps("555555554000-555555556000 r--p 00001000 fe:00 123   /bin/a b\n" +
		"7ffff7fc1000-7ffff7fc5000 r--p 00000000 00:00 0    [vvar]\nnonsense\n7fffff000000-7fffff001000 rw-p 00000000 " +
		"00:00 0 \n7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0  [stack]\n")
	for addr, want := range map[uint64]string{0x555555553fff: "", 0x555555554000: "/bin/a b",
		0x555555555fff: "/bin/a b", 0x555555556000: "", 0x7ffff7fc1008: "[vvar]",
		0x7fffff000000: "", 0x7ffffffde000: "[stack]", 1 << 47: ""} {
		got := ""
		if m := Find(all, addr); m != nil {
			got = m.Name
			if m.Writable != (m.Low >= 0x7fffff000000) || m.Offset != 0 && got != "/bin/a b" {
				t.Errorf("%#x: %+v", addr, *m)
			}
		}
		if got != want {
			t.Errorf("%#x is in %q, want %q", addr, got, want)
		}
	}
	if len(all) != 4 || all[0].Offset != 0x1000 {
		t.Errorf("%+v", all)
	}
}

// TestGap: the nearest free memory, on either side.
func TestGap(t *testing.T) {
	all := parseMaps("10000-20000 rw-s 00000000 00:00 0\n23000-24000 rw-p 00000000 00:00 0\n24000-30000 r-xp 00000000 00:00 0\n31000-32000 r--p 00000000 00:00 0\n")
	if !all[0].Shared || all[1].Shared {
		t.Errorf("%+v", all)
	}
	for size, want := range map[uint64]uint64{0x1000: 0x30000, 0x2000: 0x21000, 0x3000: 0x20000, 0x4000: 0} {
		if got := gap(all, 0x2a000, size); got != want {
			t.Errorf("%#x bytes: %#x, not %#x", size, got, want)
		}
	}
}
