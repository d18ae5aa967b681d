package batch

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// merge joins files of a corpus, "" if unknown, and returns the rows as text.
func merge(names []string, mixed bool, corpus string) (content string, report MergeReport, err error) {
	m, err := OpenMerge(names, mixed)
	if err != nil {
		return "", report, err
	}
	defer m.Close()
	var b strings.Builder
	w, err := resultfile.NewWriter(&b, resultfile.CSV, m.Schema())
	var rows iter.Seq2[input.Row, error]
	if err == nil && corpus != "" {
		var in *input.Input
		if in, err = input.Open([]string{"-"}, strings.NewReader(corpus), "", nil); err == nil {
			rows = resultfile.Each(in.Next)
		}
	}
	if err == nil {
		report, err = m.Run(rows, w.Write)
		w.Close()
	}
	return b.String(), report, err
}

// parts measures a corpus in n shards.
func parts(t *testing.T, corpus string, n int, change ...func(int, *resultfile.Run)) (names []string) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		names = append(names, filepath.Join(dir, fmt.Sprintf("part%d.csv", i)))
		o := Options{Shard: Shard{i, n}, Run: here()}
		o.Run.Shard = o.Shard.String()
		for _, f := range change {
			f(i, &o.Run)
		}
		l := &lab{delay: jitter}
		require.Get(batched(t, l, names[i], corpus, o))(t)
		l.onlyOnce(t)
	}
	return names
}

// TestShards: merged shards equal a single run, in any readable format; each row is in exactly one shard, and rows of one
// block share it.
func TestShards(t *testing.T) {
	corpus := text(1000)
	names := parts(t, corpus, 4)
	other := slices.Clone(names)
	other[0], other[1] = other[0]+".parquet", other[1]+".gz"
	convert(t, names[0], other[0], resultfile.Parquet, schema.Names())
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	require.Get(z.Write([]byte(readFile(t, names[1]))))(t)
	require.NoError(t, z.Close())
	writeFile(t, other[1], packed.String())
	for _, names := range [][]string{names, other} {
		got, report := require.Get2(merge(names, false, corpus))(t)
		holds(t, parse(t, got), corpus)
		if report.Rows != 1000 || report.Missing != 0 || report.Repeated != 0 || report.Shards != nil {
			t.Errorf("%+v", report)
		}
	}
	where := map[string]int{}
	for i, name := range names {
		part := rows(t, name)
		if len(part) < 150 || len(part) > 350 {
			t.Errorf("shard %d has %d of 1000 rows", i, len(part))
		}
		for _, row := range part {
			if at, ok := where[row["hex"]]; ok && at != i {
				t.Errorf("%s is in shards %d and %d", row["hex"], at, i)
			}
			where[row["hex"]] = i
		}
	}
}

// TestMergeReports: missing and repeated rows are reported.
func TestMergeReports(t *testing.T) {
	corpus := text(200)
	names := parts(t, corpus, 4)
	_, report := require.Get2(merge([]string{names[3], names[0], names[3]}, false, corpus+strings.Repeat("90\n", 10)))(t)
	third := int64(len(rows(t, names[3])))
	have := third + int64(len(rows(t, names[0])))
	if report.Rows != have || report.Missing != 210-have || report.Repeated != third || len(report.Gaps) == 0 ||
		!slices.Equal(report.Shards, []string{"1/4", "2/4"}) {
		t.Errorf("%+v, want %d rows", report, have)
	}
	// A whole result has no shards; its gaps are the missing rows.
	path := file(t)
	require.Get(batched(t, &lab{}, path, corpus, Options{}))(t)
	_, report = require.Get2(merge([]string{names[1], path}, false, corpus))(t)
	if report.Rows != 200 || report.Missing != 0 || report.Shards != nil {
		t.Errorf("with a shard: %+v", report)
	}
	lines := strings.SplitAfter(readFile(t, path), "\n")
	writeFile(t, path, strings.Join(slices.Concat(lines[:10], lines[11:50], lines[55:]), ""))
	_, report = require.Get2(merge([]string{path}, false, ""))(t)
	if report.Missing != 6 || fmt.Sprint(report.Gaps) != "[[10 10] [50 54]]" || report.Shards != nil {
		t.Errorf("%+v", report)
	}
}

// TestMergeEmptyShard: shards of a small corpus may be empty, and then lack nothing.
func TestMergeEmptyShard(t *testing.T) {
	const corpus = "hex,id\n90,0\n"
	names := parts(t, corpus, 3)
	for range 2 {
		content, report := require.Get2(merge(names, false, corpus))(t)
		if report.Rows != 1 || report.Missing != 0 || report.Shards != nil {
			t.Fatalf("%+v", report)
		}
		holds(t, parse(t, content), corpus)
		slices.Reverse(names)
	}
	// Without the corpus, it is unknown that no rows are missing.
	_, report := require.Get2(merge(names, false, ""))(t)
	require.Equal(t, "shards that may be missing", 2, len(report.Shards))
}

// TestMergeRefuses: two products with one kind of core may mix; a file that is damaged or names no run may not.
// The script convert has results of other conditions.
func TestMergeRefuses(t *testing.T) {
	names := parts(t, text(60), 2, func(i int, r *resultfile.Run) { r.Host.Brand = fmt.Sprint(i) })
	require.Get2(merge(names, false, ""))(t)
	for content, says := range map[string]string{
		"PAR1": "Parquet", "\x1f\x8b\x08": "unexpected EOF", "\x28\xb5\x2f\xfd": "unexpected EOF", "hex,row\n90,1\n": "no row names its run",
	} {
		other := file(t)
		writeFile(t, other, content)
		_, _, err := merge([]string{names[0], other}, false, "")
		require.Fails(t, content, err, says)
	}
	for corpus, says := range map[string]string{
		strings.Replace(text(60), block(30), "90", 1): fmt.Sprintf("its row 31 is %s, and the corpus's (-, line 32) is 90", block(30)),
		text(59): "it has row 60, and the corpus has 59 rows",
	} {
		_, _, err := merge(names, false, corpus)
		require.Fails(t, "another corpus", err, says)
	}
}

func TestParseShard(t *testing.T) {
	shard := require.Get(ParseShard("3/4"))(t)
	require.Equal(t, "a shard", Shard{3, 4}, shard)
	require.Equal(t, "its text", "3/4", shard.String())
	for _, s := range []string{"", "1", "4/4", "-1/4", "0/0", "a/2", "1/2/3"} {
		if _, err := ParseShard(s); err == nil {
			t.Errorf("%q is a shard", s)
		}
	}
}

// TestMergeDamage: impossible row numbers neither take memory nor replace missing rows.
func TestMergeDamage(t *testing.T) {
	path := file(t)
	require.Get(batched(t, &lab{}, path, text(3), Options{}))(t)
	whole := readFile(t, path)
	for number, says := range map[string]string{
		"9223372036854775807": "line 3 is not a row: its number (column row) is not from 1 to",
		"4":                   "it has row 4, and the corpus has 3 rows",
	} {
		writeFile(t, path, withCell(t, whole, 2, "row", number))
		_, _, err := merge([]string{path}, false, text(3))
		require.Fails(t, "row "+number, err, says)
	}
	writeFile(t, path, strings.Replace(whole, `""kernel""`, `""shard"":""0/2000000000"",""kernel""`, 1))
	_, report := require.Get2(merge([]string{path}, false, ""))(t)
	if report.Absent != 1_999_999_999 || len(report.Shards) != shownShards || report.Shards[0] != "1/2000000000" {
		t.Errorf("%+v", report)
	}
}
