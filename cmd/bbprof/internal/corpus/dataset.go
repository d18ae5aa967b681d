package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/dataset"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func datasetCommand() *cli.Command {
	return &cli.Command{
		Name:     "dataset",
		Summary:  "seal results for others to train on and to trust; check what others sealed",
		Synopsis: []string{"dataset [flags] -o DIR RESULT...", "dataset -verify DIR [flags]"},
		About: `DIR gets the rows as Parquet, train.csv, validation.csv and test.csv, BHive's hex,cycles, categories
and weights, a README that explains the columns, a datasheet, and a hash of each file in SHA256SUMS.
Repeated blocks are left out. Column split says train, validation or test: an application is in one
of them, and blocks that differ only in registers and immediates are in one of them, or left_out.
All results must be of one microarchitecture and one set of settings. One block in a hundred is
measured again, and the datasheet says how well that agreed.

-verify checks every file against its hash, derives from the rows what follows from them, measures
the sample again, says whether this is the same kind of core, and names what is wrong.
`,
		Notes: `docs/dataset.md describes the files, the split and what -verify can find.
`,
		Examples: `bbprof dataset -application source -o data all.parquet
bbprof dataset -verify data
`,
		Exits: map[int]string{cli.ExitOK: "sealed; or as it was sealed, and the sample agrees",
			cli.ExitRejected: "-verify: something is wrong, or the sample does not agree on the same kind of core",
			cli.ExitHost:     "this host cannot measure the sample; -sample=false leaves it out", cli.ExitUsage: "", cli.ExitInternal: "",
			cli.ExitInterrupted: ""},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			d := datasetCmd{}
			f.Operands = &d.files
			f.Text(&d.dir, "o", "FILE", "the directory to make, which must not be there")
			f.Text(&d.verify, "verify", "PATH", "check the dataset in the directory PATH")
			f.Text(&d.application, "application", "COLUMN", "the column that names the application of a block "+
				"(default: none; the split goes by near-duplicates alone)")
			f.Text(&d.weight, "weight", "COLUMN", "the column of weights, such as how often a block runs (default: none)")
			f.Off(&d.noSample, "sample", "with -sample=false, measure nothing again")
			blockflags.CPUFlag(f, &d.cpus, "CPUs to measure on, a worker on each core")
			f.Toggle(&d.out.Quiet, "q", "quiet: no notes on standard error, only errors")
			return d.run
		},
	}
}

type datasetCmd struct {
	files       []string
	dir         string
	verify      string
	application string
	weight      string
	noSample    bool
	cpus        []int
	out         cli.Output
}

func (d *datasetCmd) run(std cli.Streams) error {
	switch {
	case (d.dir == "") == (d.verify == ""):
		return cli.BadUsage("name the directory to make with -o, or the one to check with -verify")
	case d.verify != "" && len(d.files) > 0:
		return cli.BadUsage("-verify takes only its directory; leave out %s", d.files[0])
	case d.verify != "":
		return d.check(std)
	case len(d.files) == 0:
		return cli.BadUsage("no result named; name what bbprof batch or convert wrote")
	}
	return d.make(std)
}

func (d *datasetCmd) make(std cli.Streams) error {
	var sheet *dataset.Sheet
	err := writeFolder(d.dir, func(dir string) (err error) {
		sheet, err = d.write(dir, std)
		return err
	})
	if err == nil {
		io.WriteString(d.out.Notes(std), sheetText(sheet))
		if sheet.Uneven != "" {
			fmt.Fprintf(std.Err, "bbprof: warning: %s\n", sheet.Uneven)
		}
	}
	return err
}

func (d *datasetCmd) write(dir string, std cli.Streams) (*dataset.Sheet, error) {
	options := dataset.Options{Inputs: d.files, Application: d.application, Weight: d.weight, PartRows: resultfile.PartRows, Version: cli.Version(), Made: now()}
	source, err := options.Read()
	if err != nil {
		return nil, cli.Usage(err)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	sheet, err := source.Write(dir, func(sheet *dataset.Sheet, sample []dataset.SampleBlock) (*dataset.Agreement, error) {
		if d.noSample || len(sample) == 0 {
			return nil, nil
		}
		if here := host.Detect(d.cpus...).Microarchitecture; here != sheet.Hosts[0].Microarchitecture {
			fmt.Fprintf(d.out.Notes(std), "bbprof: the sample is not measured again: this is %s, and the results are "+
				"of %s\n", here, sheet.Hosts[0].Microarchitecture)
			return nil, nil
		}
		return d.remeasure(ctx, sheet, sample)
	})
	switch hostError := (*verdict.HostError)(nil); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &hostError):
		return nil, fmt.Errorf("%w; -sample=false measures nothing again", err)
	}
	return sheet, err
}

func sheetText(s *dataset.Sheet) string {
	var w strings.Builder
	fmt.Fprintf(&w, "core        %s\n", s.Hosts[0].Microarchitecture)
	fmt.Fprintf(&w, "rows        %d in %s; %d more were repetitions\n", s.Counts.Rows, words.Plural(len(s.Parts), "part"), s.Repeated)
	fmt.Fprintf(&w, "status      %s\n", strings.Join(words.Frequent(s.Counts.Status), ", "))
	if len(s.Counts.Reasons) > 0 {
		fmt.Fprintf(&w, "rejected    %s\n", strings.Join(words.Frequent(s.Counts.Reasons), ", "))
	}
	for _, controls := range s.Controls {
		fmt.Fprintf(&w, "controls    %s\n", controls)
	}
	fmt.Fprintf(&w, "speeds      %.1f %% of accepted blocks have several\n",
		100*float64(s.Counts.Several)/float64(max(s.Counts.Status[string(profiler.OK)], 1)))
	fmt.Fprintf(&w, "split       %s\n", strings.Join(words.Frequent(s.Counts.Splits), ", "))
	if s.Sample != nil {
		fmt.Fprintf(&w, "sample      %s\n", agreementText(*s.Sample))
	}
	fmt.Fprintf(&w, "content     %s\n", s.Content)
	return w.String()
}

func agreementText(a dataset.Agreement) string {
	return fmt.Sprintf("of %s measured again %.1f %% are within 1 %% and %.1f %% within 5 %%; median difference %.2f "+
		"%%, 95th percentile %.2f %%; %d not accepted again",
		words.Plural(a.Blocks, "block"), 100*a.Within1, 100*a.Within5, 100*a.Median, 100*a.P95, a.Rejected)
}

func (d *datasetCmd) check(std cli.Streams) error {
	v, err := dataset.Verify(d.verify)
	if err != nil {
		return cli.BadUsage("-verify %s: %w", d.verify, err)
	}
	var w strings.Builder
	for _, p := range v.Problems {
		fmt.Fprintf(&w, "wrong       %s\n", p)
	}
	wrong := len(v.Problems) > 0
	if !wrong {
		fmt.Fprintf(&w, "files       as sealed: %s in %s\n", words.Plural(v.Sheet.Counts.Rows, "row"), words.Plural(len(v.Sheet.Parts), "part"))
		fmt.Fprintf(&w, "content     %s\n", v.Sheet.Content)
		for _, controls := range v.Sheet.Controls {
			fmt.Fprintf(&w, "controls    %s\n", controls)
		}
		if v.Busy > 0 {
			fmt.Fprintf(&w, "busy        %s of a busy core, which are no truth even where they are accepted\n", words.Plural(v.Busy, "row"))
		}
	}
	if !wrong && !d.noSample && len(v.Sample) > 0 {
		ctx, stop := cli.UntilSignal()
		defer stop()
		a, err := d.remeasure(ctx, &v.Sheet, v.Sample)
		if err != nil {
			io.WriteString(std.Out, w.String())
			return err
		}
		same := a.Host.Microarchitecture == v.Sheet.Hosts[0].Microarchitecture
		kind := "the same kind of core"
		if !same {
			kind = "another kind of core than " + string(v.Sheet.Hosts[0].Microarchitecture)
		}
		fmt.Fprintf(&w, "host        %s (%s), %s\n", a.Host.Microarchitecture, strings.TrimSpace(a.Host.Brand), kind)
		fmt.Fprintf(&w, "sample      %s\n", agreementText(*a))
		switch {
		case a.Agrees():
			w.WriteString("agreement   the sample agrees\n")
		case same:
			w.WriteString("agreement   the sample does NOT agree, though this is the same kind of core\n")
			wrong = true
		default:
			w.WriteString("agreement   the sample does not agree, as on another kind of core it need not\n")
		}
	}
	if err := cli.WriteText(std, w.String()); err != nil {
		return err
	}
	if wrong {
		return cli.ErrRejected
	}
	return nil
}

func (d *datasetCmd) remeasure(ctx context.Context, sheet *dataset.Sheet, sample []dataset.SampleBlock) (*dataset.Agreement, error) {
	opts, err := optionsOf(sheet.Settings)
	if err != nil {
		return nil, err
	}
	opts.CPUs = d.cpus
	blocks := make([]profiler.Block, len(sample))
	for i, m := range sample {
		blocks[i].Setup.Address, _ = input.Address(m.Address)
		if blocks[i].Code, err = asm.ParseHex(m.Hex, profiler.MaxBlock); err != nil {
			return nil, fmt.Errorf("block %s: %w", m.Hex, err)
		}
	}
	workers, err := blockflags.SomeWorkers(ctx, cli.Streams{}, opts, 0)
	if err != nil {
		return nil, err
	}
	defer workers.Close()
	results, err := workers.Profile(ctx, blocks, pool.Tries-1, nil)
	if err != nil {
		return nil, err
	}
	cycles := map[string]float64{}
	for i, r := range results {
		if r.Status == profiler.OK {
			cycles[sample[i].Hex] = r.Cycles
		}
	}
	a := dataset.Compare(resultfile.HostOf(host.Detect(d.cpus...)), sample, cycles)
	return &a, nil
}

// optionsOf converts a run's settings to options; they have the names and syntax of batch's flags.
func optionsOf(settings map[string]any) (o profiler.Options, err error) {
	f := cli.NewFlags("the settings of the dataset")
	blockflags.LayoutFlags(f, &o)
	blockflags.Flags(f, &o)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if v := fmt.Sprint(settings[name]); v != "" && v != "auto" {
			args = append(args, "-"+name+"="+v)
		}
	}
	if err := f.Parse(args); err != nil {
		return o, cli.Usage(err)
	}
	return o, nil
}
