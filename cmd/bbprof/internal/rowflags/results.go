package rowflags

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// ChooseFormat derives the format from the output's name unless -format is given, and refuses to write binary data to a
// terminal.
func ChooseFormat(format *resultfile.Format, output string, std cli.Streams) error {
	if output == "-" {
		output = ""
	}
	if *format == "" {
		known := false
		if *format, known = resultfile.FormatOf(output); !known {
			return cli.BadUsage("-o %s: no format has that ending; use .csv, .jsonl, .parquet, .bhive or .tfrecord, or name one with -format", output)
		}
		if base := strings.ToLower(filepath.Base(output)); *format == resultfile.JSON && strings.Contains(base, ".json") && !strings.Contains(base, ".jsonl") {
			fmt.Fprintf(std.Err, "bbprof: %s gets JSON lines, an object a line\n", output)
		}
	}
	if _, ok := cli.Terminal(std.Out); ok && output == "" && format.Binary() {
		return cli.BadUsage("format %s is binary, and standard output is a terminal; name a file with -o", *format)
	}
	return nil
}

func FormatFlag(f *cli.Flags, format *resultfile.Format) {
	cli.Choice(f, format, resultfile.Formats(), "format", "F", "csv, with a header; jsonl, an object a line; parquet; "+
		"or accepted blocks alone, for other tools "+
		"(docs/reference.md): bhive, gematria, gematria-state, ithemal, osaca, anica, exegesis (default: as FILE is called, or csv)")
}
