package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// What a command may take for a file of some 100 KB, whatever is in it.
const (
	mostMemory = 300 << 20
	mostTime   = 10 * time.Second
)

// corruptedSchema and corruptedRun are those of the results that TestCorrupted damages.
func corruptedSchema() resultfile.Schema {
	return resultfile.NewSchema(true, []string{"source", "caf\ufffd"})
}

func corruptedRun() resultfile.Run {
	return resultfile.Run{Version: "1", Host: resultfile.Host{Microarchitecture: "Zen 9"}, Settings: resultfile.SettingsOf(profiler.Options{})}
}

// sound is a result of a format with rows of every kind.
func sound(t *testing.T, format resultfile.Format) []byte {
	t.Helper()
	schema, run := corruptedSchema(), corruptedRun()
	var out bytes.Buffer
	w := require.Get(resultfile.NewWriter(&out, format, schema))(t)
	header := run.String()
	for i := range 60 {
		row := input.Row{Number: int64(i + 1), File: "a.csv", Line: i + 2, Code: fmt.Appendf(nil, "\x90%03d", i), Carried: []string{"x, \"y\"", "é"}}
		e := resultfile.Entry{Row: row, Tries: 1, RunID: run.ID(), RunHeader: header, Result: profiler.Result{
			Status: profiler.OK, Cycles: 1.25, CILow: 1.2, CIHigh: 1.3, Instructions: 4, Bytes: 9, Ran: profiler.Ran{UnrollShort: 64, UnrollLong: 256, Pages: i % 3},
			Mode: profiler.Unroll, FrontEnd: profiler.OpCache, PaperVerdict: "ok", Listing: []profiler.ListingLine{{Text: "nop"}}}}
		if i%7 == 6 {
			e.Result = profiler.Result{Status: profiler.Rejected, Reason: verdict.Unmappable,
				Rejection: &verdict.Rejection{Reason: verdict.Unmappable, Detail: "no"}}
		}
		header = ""
		require.NoError(t, w.Write(schema.Cells(&e)))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// nasty are cells that a file's maker may have put there.
var nasty = []string{
	"", "-1", "0", "4000000000", "9223372036854775807", "9223372036854775808", "1e999", "NaN", "Inf", "-0", "0x1p-2", "true", "null", "\x00", "\xff\xfe",
	`"`, `""`, `"""`, "\\u0000", `\ud800`, "{}", "[", "]", "[[[[[[[[", `{"a":{"b":{}}}`, "\ufeff", "\r", "\r\n", "\n", ",", ",,,,,,,,,,,,", ";", "\t", " ",
	`{"version":1}`, `{"shard":"0/2000000000"}`, `{"settings":{"Mode":[[]],"Budget":"x"}}`, `{"version":"1","host":7}`,
	`"{""version"":""2"",""shard"":""3/4""}"`,
	"99999999999999999999999999999999", "3/4", "=cmd()", "../../../etc/passwd", "rejected", "ok", "error", "bad_hex",
}

// corrupted is a damaged copy, and how it was damaged.
func corrupted(r *rand.Rand, whole []byte) (text []byte, how string) {
	text = bytes.Clone(whole)
	at := r.IntN(len(text))
	switch r.IntN(7) {
	case 0:
		for range 1 + r.IntN(16) {
			text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		}
		return text, "bits"
	case 1:
		for i := range text[at:min(len(text), at+1+r.IntN(64))] {
			text[at+i] = byte(r.Uint32())
		}
		return text, "bytes"
	case 2:
		return text[:at], "truncated"
	case 3:
		clear(text[at:min(len(text), at+r.IntN(5000))])
		return text, "zeros"
	case 4:
		end := min(len(text), at+r.IntN(5000))
		return slices.Concat(text[:end], text[at:end], text[end:]), "a part twice"
	case 5:
		end := min(len(text), at+r.IntN(3000))
		return slices.Concat(text[:at], text[end:]), "a part missing"
	}
	// A cell: from one comma to the next, in what has commas.
	start := bytes.IndexByte(text[at:], ',') + at
	end := bytes.IndexByte(text[min(len(text), start+1):], ',') + start + 1
	cell := nasty[r.IntN(len(nasty))]
	if r.IntN(20) == 0 {
		cell = strings.Repeat(cell+"x", 1+r.IntN(1<<20))
	}
	if end <= start {
		end = start
	}
	return slices.Concat(text[:start+1], []byte(cell), text[min(len(text), end):]), "a cell"
}

// peak is the most memory that f had resident, in bytes (proc_pid_clear_refs(5)).
func peak(t *testing.T, f func()) int64 {
	t.Helper()
	if status(t, "VmRSS:") > 64<<20 {
		debug.FreeOSMemory()
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		require.Skip(t, require.Kernel, "the peak of memory cannot be reset: %v", err)
	}
	f()
	return status(t, "VmHWM:")
}

func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

func status(t *testing.T, name string) int64 {
	t.Helper()
	text := require.Get(os.ReadFile("/proc/self/status"))(t)
	_, rest, _ := strings.Cut(string(text), name)
	kb := require.Get(strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64))(t)
	return kb << 10
}

// steps are what is done with a result file. An error says that bbprof failed, not the file.
func steps(t *testing.T, name string, format resultfile.Format) map[string]func() error {
	command := func(args ...string) func() error {
		return func() error {
			var stderr strings.Builder
			code := run(args, strings.NewReader(""), io.Discard, &stderr)
			if code != cli.ExitOK && code != cli.ExitUsage && !(args[0] == "convert" && code == cli.ExitRejected) {
				return fmt.Errorf("exit code %d: %s", code, stderr.String())
			}
			return nil
		}
	}
	return map[string]func() error{
		"convert -format parquet": command("convert", "-format", "parquet", name),
		"convert of parts":        command("convert", "-format", "jsonl", name, name),
		"check":                   command("check", "-cpus", "8191", name, name), // which no host has
		"batch -resume": func() error {
			if !format.Appends() {
				return nil
			}
			copied := name + ".copy"
			text, err := os.ReadFile(name)
			if err != nil {
				return nil // such as a directory
			}
			if err := os.WriteFile(copied, text, 0o666); err != nil {
				return err
			}
			out, _, err := batch.Resume(copied, format, corruptedSchema(), corruptedRun())
			if err != nil {
				return nil // it says why
			}
			return errors.Join(out.Flush(), out.Sort(), out.Close())
		},
	}
}

// TestCorrupted leads damaged results through every command that reads results: none panics, none
// blames bbprof, none takes much memory or time. BBPROF_CORRUPTED is how many files.
func TestCorrupted(t *testing.T) {
	require.Slow(t)
	files := 150
	if n, err := strconv.Atoi(os.Getenv("BBPROF_CORRUPTED")); err == nil {
		files = n
	}
	formats := []resultfile.Format{resultfile.CSV, resultfile.JSON, resultfile.Parquet}
	var whole [][]byte
	for _, f := range formats {
		whole = append(whole, sound(t, f))
	}
	if seen := peak(t, func() { touch(make([]byte, 80<<20)) }); seen < 80<<20 {
		t.Fatalf("80 MiB in use are seen as %d MiB", seen>>20)
	}
	name := filepath.Join(t.TempDir(), "result")
	for i := range files {
		r := rand.New(rand.NewPCG(uint64(i), 15))
		k := i % len(formats)
		text, how := corrupted(r, whole[k])
		require.NoError(t, os.WriteFile(name, text, 0o666))
		for step, do := range steps(t, name, formats[k]) {
			bounded(t, fmt.Sprintf("file %d (%s, %s) through %s", i, formats[k], how, step), do)
		}
	}
}

// bounded runs a step and holds it to its limits.
func bounded(t *testing.T, label string, do func() error) {
	t.Helper()
	began := time.Now()
	memory := peak(t, func() {
		defer func() {
			if why := recover(); why != nil {
				t.Errorf("%s: panic: %v\n%s", label, why, debug.Stack())
			}
		}()
		if err := do(); err != nil {
			t.Errorf("%s: %v", label, err)
		}
	})
	if took := time.Since(began); took > mostTime {
		t.Errorf("%s takes %v", label, took)
	}
	if memory > mostMemory {
		t.Errorf("%s takes %d MiB", label, memory>>20)
	}
}

// repeated is one byte so many times.
type repeated struct {
	b    byte
	left int64
}

func (z *repeated) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = z.b
	}
	z.left -= n
	return int(n), nil
}

const endless = 1 << 62

// packed is a text, compressed.
func packed(t *testing.T, ending string, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := require.Get(cli.Compressed(&out, "x"+ending))(t)
	require.Get(w.Write(text))(t)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// oddInputs are contents of files, by what is odd about them.
func oddInputs(t *testing.T) map[string][]byte {
	const header = "hex,status,reason,cycles,ci_low,ci_high,row\n"
	rep := func(s string, n int) []byte { return bytes.Repeat([]byte(s), n) }
	text := func(parts ...string) []byte { return []byte(strings.Join(parts, "")) }
	after := func(start, unit string, n int) []byte { return append([]byte(start), rep(unit, n)...) }
	odd := map[string][]byte{
		"empty": nil, "newlines": rep("\n", 1<<20), "carriage returns": rep("\r", 20<<20), "commas": rep(",", 20<<20),
		"quotes": rep(`"`, 20<<20), "pairs of quotes": rep(`"",`, 8<<20), "zeros": make([]byte, 20<<20), "hexadecimal": rep("90", 10<<20),
		"blocks": rep("90\n", 1<<17), "comments": rep("#\n", 1<<19), "random": make([]byte, 1<<20),
		"a header without an end": text("hex,status"), "a header and zeros": after(header, "\x00", 20<<20),
		"a header and commas": after(header, ",", 20<<20), "a header and quotes": after(header, `"`, 20<<20),
		"a header and newlines": after(header, "\n", 1<<20), "a header twice": text(header, header),
		"a byte-order mark and a header": text("\ufeff", header), "UTF-16": text("\xff\xfeh\x00e\x00x\x00\n\x00"),
		"an ELF file":          text("\x7fELF\x02\x01\x01", strings.Repeat("\x00", 4096)),
		"50,000 columns":       text("hex,status,", strings.Repeat("x,", 49_998), "y\n"),
		"10,000 of one name":   text("hex,status", strings.Repeat(",x", 10_000), "\n90,ok", strings.Repeat(",", 10_000), "\n"),
		"a long name":          after("hex,status,", "x", 20<<20),
		"a name of 1 MiB":      text("hex,status,row,", strings.Repeat("x", 1<<20), "\n90,ok,1,\n"),
		"two columns hex":      text("hex,hex,status,row\n90,90,ok,1\n"),
		"a cell of 7 MiB":      text("hex,status,row,x\n90,ok,1,", strings.Repeat("x", 7<<20), "\n"),
		"a cell of 20 MiB":     text("hex,status,row,x\n90,ok,1,", strings.Repeat("x", 20<<20), "\n"),
		"backwards, to row 0":  text(header, "90,ok,,1,1,1,3\n90,ok,,1,1,1,1\n90,ok,,1,1,1,0\n"),
		"huge numbers of rows": text(header, "90,ok,,1,1,1,9223372036854775807\n90,ok,,1,1,1,1\n"),
		"numbers far apart":    text(header, "90,ok,,1,1,1,4000000000\n90,ok,,1,1,1,1\n"),
		"JSON {}":              text("{}\n"), "deep JSON": rep("[", 10<<20), "deep objects": rep(`{"a":`, 4<<20),
		"a long string in JSON": text(`{"hex":"`, strings.Repeat("x", 20<<20), "\"}\n"),
		"escapes in JSON":       text(`{"hex":"90","status":"ok","row":1,"x":"`, strings.Repeat(`\u0041`, 1<<18), "\"}\n"),
		"50,000 names in JSON":  text(`{"hex":"90","status":"ok"`, strings.Repeat(`,"x":1`, 50_000), "}\n"),
		"a long number in JSON": text(`{"hex":"90","status":"ok","cycles":`, strings.Repeat("9", 4<<20), "}\n"),
		"Parquet's magic twice": text("PAR1PAR1"), "Parquet of zeros": text("PAR1", strings.Repeat("\x00", 5000), "PAR1"),
		"a footer of 4 GB": text("PAR1", strings.Repeat("\x15", 100), "\xff\xff\xff\xffPAR1"),
		"gzip's magic":     text("\x1f\x8b"), "Zstandard's magic": text("\x28\xb5\x2f\xfd"),
		"half of a .gz":           packed(t, ".gz", rep("9", 1<<20))[:500],
		"a bomb of zeros, .zst":   bytes.Repeat(packed(t, ".zst", rep("\x00", 10<<20)), 30),
		"a bomb of commas, .gz":   append(packed(t, ".gz", []byte(header)), bytes.Repeat(packed(t, ".gz", rep(",", 10<<20)), 30)...),
		"a bomb of newlines, .gz": packed(t, ".gz", after(header, "\n", 1<<20)),
		"a .gz in a .gz":          packed(t, ".gz", packed(t, ".gz", []byte(header))),
		"a window of 2 GB, .zst":  text("\x28\xb5\x2f\xfd\x00\xa8", strings.Repeat("\x00", 100)),
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range odd["random"] {
		odd["random"][i] = byte(r.Uint32())
	}
	return odd
}

// TestOddInputs leads files that are neither a result nor a corpus, endless files and devices through the
// commands that read files.
func TestOddInputs(t *testing.T) {
	require.Slow(t)
	dir := t.TempDir()
	files := map[string]string{}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/proc/self/mem",
		"/proc/self/maps", dir, filepath.Join(dir, "nowhere")} {
		files[device] = device
	}
	sparse := filepath.Join(dir, "sparse")
	os.WriteFile(sparse, []byte("hex,status,row\n"), 0o666)
	require.NoError(t, os.Truncate(sparse, 6<<30))
	loop := filepath.Join(dir, "loop")
	os.Symlink(loop, loop)
	files["6 GB of a hole"], files["a link to itself"] = sparse, loop
	for what, content := range oddInputs(t) {
		name := filepath.Join(dir, fmt.Sprintf("%x", what))
		require.NoError(t, os.WriteFile(name, content, 0o666))
		files[what] = name
	}
	part := filepath.Join(dir, "part.csv")
	os.WriteFile(part, sound(t, resultfile.CSV), 0o666)
	for what, name := range files {
		all := steps(t, name, resultfile.CSV)
		if strings.HasPrefix(name, "/") && !strings.HasPrefix(name, dir) || name == sparse {
			delete(all, "batch -resume") // it copies the file
		}
		all["convert -of"] = func() error { run([]string{"convert", "-of", name, part}, nil, io.Discard, io.Discard); return nil }
		all["the corpus of batch"] = func() error {
			in, err := input.Open([]string{name}, nil, "", resultfile.Reserved())
			if err != nil {
				return nil // it says why
			}
			defer in.Close()
			for err == nil {
				_, err = in.Next()
			}
			return nil
		}
		for step, do := range all {
			bounded(t, what+" through "+step, do)
		}
	}
	for _, b := range []byte{0, 'a', ',', '"', '{', '['} {
		for _, args := range [][]string{{"convert", "-"}, {"check", "-", "/dev/null"}} {
			bounded(t, fmt.Sprintf("%q without end through %s", b, args), func() error {
				if code := run(args, &repeated{b, endless}, io.Discard, io.Discard); code != cli.ExitUsage {
					return fmt.Errorf("exit code %d", code)
				}
				return nil
			})
		}
	}
}
