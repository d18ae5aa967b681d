package corpus

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/internal/require"
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
