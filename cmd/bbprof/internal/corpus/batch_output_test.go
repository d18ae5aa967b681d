package corpus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
)

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
