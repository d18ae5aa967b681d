package resultfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestCheck: a row that bbprof cannot have written is refused in each format, whoever reads it.
func TestCheck(t *testing.T) {
	schema := SchemaOf(strings.Fields("hex status reason cycles ci_low ci_high row_cycles row_ci_low row_ci_high"))
	for row, says := range map[string]string{
		"90 ok - 0.25 0.2 0.3 - - -":         "",
		"90 ok - 0.25 0.25 0.25 0.4 0.4 0.4": "",
		"zz rejected bad_hex - - - - - -":    "",
		"90 error - - - - - - -":             "",
		"90 ok - -3 -3 -3 - - -":             `cycles is "-3`,
		"90 ok - 0 0 0 - - -":                `cycles is "0`,
		"90 ok - 1e308 0 1e308 - - -":        `want a number above 0, and at most 1e+12`,
		"90 ok - - 1 2 - - -":                `cycles is ""`,
		"zz ok - 1 1 1 - - -":                "status is ok, and hex is not a block: ",
		"- ok - 1 1 1 - - -":                 "status is ok, and hex is not a block: ",
		"90 ok - 2 3 1 - - -":                `ci_low is "3`,
		"90 ok - 2 1 1.5 - - -":              `ci_high is "1.5`,
		"90 ok - 2 - 3 - - -":                `ci_low is ""`,
		"90 ok - 2 -1 3 - - -":               `ci_low is "-1`,
		"90 ok - 1 1 1 2 3 4":                `row_ci_low is "3`,
		"90 maybe - 1 1 1 - - -":             `status is "maybe", not ok, rejected or error`,
		"90 - - 1 1 1 - - -":                 `status is "", not`,
		"90 rejected - - - - - - -":          "status is rejected, without a reason",
		"90 rejected unstable 1 1 1 - - -":   `status is rejected, and cycles is "1`,
		"90 error unstable - - 1 - - -":      `status is error, and ci_high is "1`,
	} {
		cells := strings.Fields(row)
		for i, c := range cells {
			if c == "-" {
				cells[i] = ""
			}
		}
		for _, f := range []Format{CSV, JSON, Parquet} {
			path := filepath.Join(t.TempDir(), "result")
			file := require.Get(os.Create(path))(t)
			out := require.Get(NewWriter(file, f, schema))(t)
			require.NoError(t, errors.Join(out.Write(cells), out.Close(), file.Close()))
			in := require.Get(OpenRows(path, nil))(t)
			_, err := in.Next()
			require.NoError(t, in.Close())
			if says == "" {
				require.NoError(t, err)
			} else if err == nil || !strings.Contains(err.Error(), path+": row 1: ") || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v, want %q", row, f, err, says)
			}
			if f == Parquet {
				continue
			}
			lines := require.Get(NewLineReader(strings.NewReader(string(require.Get(os.ReadFile(path))(t))), ""))(t)
			if _, err := lines.NextResult(); (err == nil) != (says == "") {
				t.Errorf("%s, %s, read to be resumed or merged: %v, want %q", row, f, err, says)
			}
		}
	}
}
