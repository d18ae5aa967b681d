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
