package corpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// snippets writes the accepted blocks of one file into a directory, each a file called by its row: llvm-exegesis takes
// one snippet a file.
func (c *convertCmd) snippets(std cli.Streams) error {
	if len(c.files) > 1 || len(c.of) > 0 {
		return cli.BadUsage("-format exegesis: join the parts first, with bbprof convert -o FILE.csv")
	}
	in, err := resultfile.OpenRows(c.files[0], std.In, "hex", "status")
	if err != nil {
		return cli.Usage(err)
	}
	defer in.Close()
	written, left := 0, 0
	err = writeFolder(c.out.File, func(dir string) error {
		n := 0
		for row, err := range in.All() {
			if err != nil {
				return cli.Usage(err)
			}
			n++
			one, err := resultfile.NewLines(c.format, in.Schema)
			if err != nil {
				return cli.Usage(in.Error(err))
			}
			text, err := one.Append(nil, row.Cells)
			switch {
			case errors.Is(err, resultfile.ErrBranch):
				left++
				continue
			case err != nil:
				return cli.Usage(row.Error(err))
			case len(text) == 0:
				continue
			}
			written++
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.s", n)), text, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out.Notes(std), "bbprof: %s written\n", words.Plural(written, "snippet"))
	if left > 0 {
		fmt.Fprintf(c.out.Notes(std), "bbprof: left out: %s with a branch at the end, which llvm-exegesis does not take\n", words.Plural(left, "block"))
	}
	return nil
}
