package host

import (
	"testing"
	"testing/fstest"

	"github.com/bbprof/bbprof/internal/require"
)

// TestDescribeMachine: what /proc and /sys do not show is unknown, and two machines differ in what they show.
func TestDescribeMachine(t *testing.T) {
	none := func(uint32, uint32) (a, b, c, d uint32) { return }
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const vulnerabilities = "sys/devices/system/cpu/vulnerabilities/"
	files := fstest.MapFS{
		"proc/cpuinfo":              file("model\t\t: 207\nmicrocode\t: 0x21000283\ncpu MHz\t: 2100\n"),
		"proc/sys/kernel/osrelease": file("6.18.44\n"), "sys/devices/system/cpu/smt/control": file("on\n"),
		vulnerabilities + "spectre_v1": file("Mitigation: usercopy\n"), vulnerabilities + "meltdown": file("Not affected\n"),
	}
	here := DescribeMachine(files, none)
	require.Equal(t, "it", Machine{"0x21000283", "6.18.44", "", "on", []string{"spectre_v1: usercopy"}}, here)
	require.Equal(t, "text", "microcode 0x21000283, Linux 6.18.44, bare metal, SMT on, mitigations in force: 1", here.String())
	unknown := DescribeMachine(fstest.MapFS{}, none)
	require.Equal(t, "of nothing", Machine{}, unknown)
	require.Equal(t, "differences", []string{"microcode 0x21000283, there unknown", "Linux 6.18.44, there unknown", "SMT on, there unknown",
		"spectre_v1: usercopy, not there"}, here.Differences(unknown))
	require.Equal(t, "with itself", []string(nil), here.Differences(here))
}
