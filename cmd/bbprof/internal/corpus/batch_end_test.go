package corpus

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
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
		require.Equal(t, c.args, c.want, resumeCommand("bbprof", f))
	}
}

// TestBatchExitCodes covers the exits that no script can provoke.
func TestBatchExitCodes(t *testing.T) {
	host := fmt.Errorf("starting a child: %w", &verdict.HostError{Missing: "ptrace", Remedy: "be root"})
	other := errors.New("it broke")
	for _, c := range []struct {
		name string
		end  func(cli.Streams) error
		want int
		says string
	}{
		{"a host that cannot, after a row", func(s cli.Streams) error {
			return (&batchEnd{flags: &batchFlags{}, tally: batch.Tally{Rows: 1}, std: s}).why(host)
		}, cli.ExitHost,
			"bbprof: starting a child: this host cannot measure: ptrace; be root, with 1 row done and written in full\n"},
		{"the input breaks", func(s cli.Streams) error {
			return (&batchEnd{flags: &batchFlags{}, tally: batch.Tally{Rows: 3}, held: 1, std: s}).why(&input.ReadError{Err: other})
		}, cli.ExitUsage, "bbprof: reading the input: it broke, with 2 rows done and written in full\n"},
		{"another error", func(s cli.Streams) error { return (&batchEnd{flags: &batchFlags{}, std: s}).why(other) }, cli.ExitInternal,
			"bbprof: it broke, with 0 rows done and written in full\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			std := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
			require.Equal(t, "exit code", c.want, cli.Finish("", c.end(std), measuring.Explain, std))
			if stderr.String() != c.says || stdout.String() != "" {
				t.Errorf("says %q and prints %q, want %q and nothing", stderr.String(), stdout.String(), c.says)
			}
		})
	}
}
