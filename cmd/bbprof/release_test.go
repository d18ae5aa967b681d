package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestRelease: the archive holds a static binary that knows its version, what goes with it, and
// checksums that are right.
func TestRelease(t *testing.T) {
	require.Slow(t)
	t.Parallel() // with what measures nothing either
	for _, tool := range []string{"make", "tar", "gzip", "sha256sum"} {
		require.Tool(t, require.Gzip, tool)
	}
	out := t.TempDir()
	shell := func(dir, command string) string {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, text)
		}
		return string(text)
	}
	shell("../..", "make release TRIM= VERSION=v9.8.7 COMMIT=0123abc OUT="+out) // with -trimpath all packages would be compiled once more
	const name = "bbprof-v9.8.7-linux-amd64"
	shell(out, "sha256sum -c "+name+".tar.gz.sha256 && rm -r "+name+" && tar -xzf "+name+".tar.gz")
	files := require.Get(filepath.Glob(filepath.Join(out, name, "*")))(t)
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	slices.Sort(files)
	want := []string{"ARCHITECTURE.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SHA256SUMS",
		"_bbprof", "bbprof", "bbprof.1", "bbprof.bash", "bbprof.fish", "docs"}
	require.Equal(t, "it", want, files)
	in := filepath.Join(out, name)
	shell(in, "sha256sum -c SHA256SUMS && grep -q docs/tutorial.md SHA256SUMS")
	if got := shell(in, "./bbprof --version"); !strings.HasPrefix(got, "bbprof v9.8.7 0123abc go1.") {
		t.Errorf("version: %s", got)
	}
	binary := require.Get(elf.Open(filepath.Join(in, "bbprof")))(t)
	defer binary.Close()
	const most = 15_700_000 // 14.9e6 before journals (encoding/gob adds 125e3), 15.5e6 before loops before anything is learnt, 15.6e6 before count's copies
	if info, err := os.Stat(filepath.Join(in, "bbprof")); err != nil || info.Size() >= most {
		t.Errorf("the binary has %d bytes, want less than %d; go build -ldflags=-dumpdep tells what pulls what (%v)", info.Size(), most, err)
	}
	if slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the binary is not static")
	}
}
