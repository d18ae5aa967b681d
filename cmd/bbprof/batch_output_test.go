package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// TestConversionFails: a batch whose last step fails says where its rows are, and is no bad usage.
func TestConversionFails(t *testing.T) {
	dir := t.TempDir()
	d := destination{path: filepath.Join(dir, "r.parquet"), journal: filepath.Join(dir, "r.journal"), format: resultfile.Parquet, columns: []string{"nosuch"}}
	out, err := batch.Create(d.journal, d.gathered(), resultfile.NewSchema(false, nil), false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = d.finish(out)
	if want := "the results are in " + d.journal + ", but " + d.path + " could not be made of them: "; err == nil || !strings.HasPrefix(err.Error(), want) || exitOf(err) != exitInternal {
		t.Errorf("%v, exit code %d; want %q, %d", err, exitOf(err), want, exitInternal)
	}
	if _, err := os.Stat(d.journal); err != nil {
		t.Error(err)
	}
}
