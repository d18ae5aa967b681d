package corpus

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// readAll gives each row as "line text=code" or "line text!reason".
func readAll(t *testing.T, in string) (rows []string, header string) {
	t.Helper()
	// One byte a read: nothing may depend on how the input comes in.
	r := NewReader(iotest.OneByteReader(strings.NewReader(in)))
	for {
		row, err := r.Next()
		if err == io.EOF {
			return rows, r.Header()
		}
		if err != nil {
			t.Fatal(err)
		}
		s := row.Text + "=" + hex.EncodeToString(row.Code)
		if row.Rejection != nil {
			s = row.Text + "!" + string(row.Rejection.Reason)
		}
		rows = append(rows, s)
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in, header string
		want             []string
	}{
		{"empty", "", "", nil},
		{"one", "90", "", []string{"90=90"}},
		{"end of line", "90\n", "", []string{"90=90"}},
		{"carriage returns", "90\r\n91\r\n", "", []string{"90=90", "91=91"}},
		{"columns", "90,a,\"b\n91,\n", "", []string{"90=90", "91=91"}},
		{"header", "hex,source\n90,x\n", "hex", []string{"90=90"}},
		{"header alone", "hex", "hex", nil},
		{"header in quotes", "\"Basic block\",x\n90\n", "Basic block", []string{"90=90"}},
		{"header behind a byte-order mark", "\ufeffhex\n90\n", "hex", []string{"90=90"}},
		{"block behind a byte-order mark", "\ufeff90\n", "", []string{"90=90"}},
		{"a name further down is no header", "90\nhex\n", "", []string{"90=90", "hex!bad_hex"}},
		{"hexadecimal letters are no header", "add\n", "", []string{"add!bad_hex"}},
		{"a damaged block is no header", "48g1\n", "", []string{"48g1!bad_hex"}},
		{"empty lines are rows", "\n90\n\n,x\n", "", []string{"!bad_hex", "90=90", "!bad_hex", "!bad_hex"}},
		{"quotes", "\"48 01 c0\",x\n \"90\" ,\n", "", []string{"48 01 c0=4801c0", "90=90"}},
		{"a stray quote ends with its line", "\"90\n91\n", "", []string{"90!bad_hex", "91=91"}},
		{"spaces", "  0x90 , x\n", "", []string{"0x90=90"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, header := readAll(t, c.in)
			if strings.Join(rows, "|") != strings.Join(c.want, "|") || header != c.header {
				t.Errorf("%q gives %q, header %q; want %q, header %q", c.in, rows, header, c.want, c.header)
			}
		})
	}
}

func TestReaderSaysWhere(t *testing.T) {
	r := NewReader(strings.NewReader("hex\n90\n4z\n"))
	r.Next()
	row, err := r.Next()
	if err != nil || row.Line != 3 || !strings.HasPrefix(row.Rejection.Detail, "line 3: character 2: ") {
		t.Errorf("%+v, %v, %v", row, row.Rejection, err)
	}
}

// TestReaderBounds reads at the limits and just beyond them; the row behind must survive.
func TestReaderBounds(t *testing.T) {
	longest := strings.Repeat("90", profiler.MaxBlock)
	for _, c := range []struct {
		name, line string
		want       verdict.Reason
	}{
		{"longest block", longest, ""},
		{"longest block in quotes", `"` + longest + `",x`, ""},
		{"longest block and a long comment", longest + "," + strings.Repeat("x", maxRow), ""},
		{"a byte too long", longest + "90", verdict.CodeExceedsL1I},
		{"a column as long as is read", strings.Repeat(" ", maxRow-len("90\n")) + "90", ""},
		{"a column that goes on", strings.Repeat(" ", maxRow-len("9\n")) + "90", verdict.BadHex},
		{"a quoted column that goes on", `"` + strings.Repeat(" ", maxRow) + `90"`, verdict.BadHex},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.line + "\n91\n"))
			row, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			var got verdict.Reason
			if row.Rejection != nil {
				got = row.Rejection.Reason
			}
			if got != c.want {
				t.Errorf("reason %q, want %q (%v)", got, c.want, row.Rejection)
			}
			if got == "" && len(row.Code) == 0 {
				t.Error("neither block nor reason")
			}
			if next, err := r.Next(); err != nil || next.Text != "91" || next.Line != 2 {
				t.Errorf("the next row is %+v, %v", next, err)
			}
		})
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("90\n91"), iotest.ErrReader(broken)))
	if row, err := r.Next(); err != nil || row.Text != "90" {
		t.Fatalf("%+v, %v", row, err)
	}
	// The row that it broke in may lack its end.
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// FuzzReader: every line but a header is one row, in order, with a block or a reason.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"hex,x\n90\n", "\"48\n01\"", "\r\n\n", "\ufeff90,\"", "zz\x00\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		lines := bytes.Count(in, []byte("\n"))
		if len(in) > 0 && in[len(in)-1] != '\n' {
			lines++
		}
		r := NewReader(bytes.NewReader(in))
		rows := 0
		for {
			row, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			rows++
			if (row.Rejection == nil) == (len(row.Code) == 0) {
				t.Fatalf("%q: block %x and reason %v", row.Text, row.Code, row.Rejection)
			}
			if row.Rejection != nil {
				row.Rejected()
			}
			if r.Header() != "" && row.Line != rows+1 || r.Header() == "" && row.Line != rows {
				t.Fatalf("row %d is said to be line %d, header %q", rows, row.Line, r.Header())
			}
		}
		if r.Header() != "" {
			rows++
		}
		if rows != lines {
			t.Fatalf("%d rows of %d lines", rows, lines)
		}
	})
}
