package corpus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestGoOn: the command that resumes a run is the original command plus -resume.
func TestGoOn(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "r.csv", "b.csv"}, "bbprof batch -resume -o r.csv b.csv"},
		{[]string{"--overwrite", "-o", "a b", "-resume", "it's"}, `bbprof batch -resume -o 'a b' 'it'\''s'`},
		{[]string{"-overwrite=true", "-cpus", "0-3,8", ""}, "bbprof batch -resume -cpus 0-3,8 ''"},
		{[]string{"-overwrite", "true", "-resume=false", "-o", "r.csv", "b.csv", "true"}, "bbprof batch -resume -o r.csv b.csv true"},
		{[]string{"-o", "r.csv", "--", "-resume"}, "bbprof batch -resume -o r.csv -- -resume"},
		{[]string{"resume", "$x"}, "bbprof batch -resume resume '$x'"},
		{[]string{"-o", "-overwrite", "b.csv"}, "bbprof batch -resume -o -overwrite b.csv"}, // a file named -overwrite
	} {
		f := cli.NewFlags("bbprof batch")
		(&batchFlags{flags: f}).declare(f)
		require.NoError(t, f.Parse(c.args))
		require.Equal(t, c.args, c.want, cli.ResumeCommand("bbprof", f))
	}
}

// TestBatchExitCodes covers the exits that no script can provoke.
func TestBatchExitCodes(t *testing.T) {
	host := fmt.Errorf("starting a child: %w", &verdict.HostError{Missing: "ptrace", Remedy: "be root"})
	other := errors.New("it broke")
	for _, c := range []struct {
		rows int64
		held int64
		err  error
		want int
		says string
	}{
		{1, 0, host, cli.ExitHost, "bbprof: starting a child: this host cannot measure: ptrace; be root, with 1 row done and written in full\n"},
		{3, 1, &input.ReadError{Err: other}, cli.ExitUsage, "bbprof: reading the input: it broke, with 2 rows done and written in full\n"},
		{0, 0, other, cli.ExitInternal, "bbprof: it broke, with 0 rows done and written in full\n"},
	} {
		var stdout, stderr strings.Builder
		std := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
		end := batchEnd{flags: &batchFlags{}, tally: batch.Tally{Rows: c.rows}, held: c.held, std: std}
		require.Equal(t, "exit code", c.want, cli.Finish("", end.why(c.err), blockflags.Explain, std))
		require.Equal(t, "stderr", c.says, stderr.String())
		require.Equal(t, "stdout", "", stdout.String())
	}
}

// TestConversionFails: if the final conversion fails, batch names the rows' file, and reports no bad usage.
func TestConversionFails(t *testing.T) {
	dir := t.TempDir()
	flags := batchFlags{format: resultfile.Parquet, columns: []string{"nosuch"}, out: cli.Output{File: filepath.Join(dir, "r.parquet")}}
	d := destination{batchFlags: &flags, journal: filepath.Join(dir, "r.journal")}
	out := require.Get(batch.Create(d.journal, d.gathered(), resultfile.NewSchema(false, nil), false))(t)
	defer out.Close()
	err := d.finish(out)
	if want := "the results are in " + d.journal + ", but " + d.out.File + " could not be made of them: "; err == nil ||
		!strings.HasPrefix(err.Error(), want) || blockflags.ExitOf(err) != cli.ExitInternal {
		t.Errorf("%v, exit code %d; want %q, %d", err, blockflags.ExitOf(err), want, cli.ExitInternal)
	}
	require.Get(os.Stat(d.journal))(t)
}

// TestStatesDoNotMix: results from captured states and from bbprof's own are not mixed by -resume.
func TestStatesDoNotMix(t *testing.T) {
	in, own := batchFlags{state: "s"}, batchFlags{}
	list := in.describe(host.Layout{}).Difference(own.describe(host.Layout{})).All()
	require.Equal(t, "the difference", []string{`setting init: "captured", here "auto"`}, list)
}

// TestDamagedStates: a damaged file of states is bad input, which ends the run; a state that it lacks fails one row.
func TestDamagedStates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s")
	f := require.Get(states.Create(name, states.About{}))(t)
	require.NoError(t, f.Add(&states.Visit{Entry: states.Entry{Hex: "90"}}))
	require.NoError(t, f.Close())
	start := func(visit string) error {
		r := require.Get(states.Open(name))(t)
		defer r.Close()
		return startFrom(r, &profiler.Block{Code: []byte{0x90}, Setup: profiler.Setup{Visit: visit}})
	}
	reading := (*input.ReadError)(nil)
	require.NoError(t, start("s#1"))
	if err := start("s#2"); err == nil || errors.As(err, &reading) {
		t.Errorf("a state that is not there: %v", err)
	}
	content := require.Get(os.ReadFile(name))(t)
	content[200] ^= 1 // within the visit: the description before it takes less, and the index after it more
	require.NoError(t, os.WriteFile(name, content, 0o600))
	if err := start("s#1"); !errors.As(err, &reading) {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestWatch: progress has counts, rate and remaining time, as far as these are known.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		size, bytes int64
		aside       int
		ended       bool
		want        string
	}{
		{1000, 550, 0, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, 55 %, 9s left"},
		{1000, 550, 3, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, 3 to be tried again, 55 %, 9s left"},
		{1000, 1000, 3, true, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, retry: 3 to go"},
		{0, 5, 0, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error"}, // standard input
	} {
		w := newWatch(io.Discard, c.size)
		w.from = 50
		p := batch.Progress{Tally: &batch.Tally{Rows: 100, OK: 90, Rejected: 9, Failed: 1, Measured: 100}, Bytes: c.bytes, Aside: c.aside, Ended: c.ended}
		require.Equal(t, "text", c.want, w.text(p, w.began.Add(10*time.Second)))
	}
}
