package report

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/require"
)

// samplePage has something in every part of a page.
func samplePage() *Page {
	p := &Page{
		Report: &score.Report{Core: `<"A" & B>`, Rejected: map[string]int{"unstable": 5, "alias_4k": 2}},
		Made:   "Written by a test.",
		Facts:  []Fact{{"CPU", "Some CPU"}, {"Kernel", "6.1"}},
	}
	var falling, none []score.Prediction
	for i := range 30 {
		cycles := float64(i + 1)
		p.Measured = append(p.Measured, score.Block{Hex: fmt.Sprintf("4883c0%02x", i), Category: "scalar", Bound: "front end", Evidence: "inferred: l1d_miss",
			Cycles: cycles, Low: cycles * 0.99, High: cycles * 1.01, Weight: float64(i) * 1e-9, Instructions: 1 + i/20})
		falling, none = append(falling, score.Prediction{Cycles: 30.004 - float64(i)}), append(none, score.Failed("no such instruction"))
	}
	p.Judge(p.Measured, []score.Model{
		{Name: "old", Kind: score.Candidate, Source: "old.csv", Predictions: falling},
		{Name: "new", Kind: score.Bound, Source: "new.csv", Predictions: none},
	}, 1, 0)
	return p
}

func written(t *testing.T, p *Page) string {
	var w bytes.Buffer
	require.NoError(t, Write(&w, p))
	return w.String()
}

func TestPageNeedsNoOtherFile(t *testing.T) {
	text := written(t, samplePage())
	if !strings.Contains(text, "Measured blocks on &lt;&#34;A&#34; &amp; B&gt;") {
		t.Error("the title is not escaped")
	}
	for what, wrong := range map[string]string{
		"another file": `\bsrc=|<link|@import|url\(|https?://`, "a number of one": `\b1 blocks`, "a difference": `-0 %`,
		"a weight": `\de-\d\d<`, "evidence said again": `<small>inferred: l1d_miss`, "what the template refused": `NaN|ZgotmplZ`} {
		require.Equal(t, what, "", regexp.MustCompile(wrong).FindString(text))
	}
}

func TestPageOfMeasurementsAlone(t *testing.T) {
	text := written(t, &Page{Report: &score.Report{}, Measured: []score.Block{{Hex: "90", Cycles: 1, Low: 1, High: 1}}})
	require.Equal(t, "a heading without any", "", regexp.MustCompile("<h[23]>(Models|Rejected|mistakes)").FindString(text))
}

// TestHeatAxis: blocks that take less than a cycle do not all share a corner.
func TestHeatAxis(t *testing.T) {
	for _, test := range []struct {
		cycles  []float64
		from, x float64 // start of the axis; position of a third of a cycle
	}{{[]float64{0.2, 0.4, 5}, 0.1, math.Log(10./3) / math.Log(1000)}, {[]float64{0.2, 4, 5}, 0, 1. / 30}} {
		var blocks []score.Block
		for _, c := range test.cycles {
			blocks = append(blocks, score.Block{Cycles: c})
		}
		if from, _, axis, _ := heatAxis(blocks); from != test.from || math.Abs(axis(1./3)-test.x) > 1e-9 {
			t.Errorf("%v: the axis begins at %v and has a third at %v, want %v and %v", test.cycles, from, axis(1./3), test.from, test.x)
		}
	}
}

func TestPageInChromium(t *testing.T) {
	chromium := require.Tool(t, require.Chromium, "chromium", "chromium-browser", "google-chrome")
	drive := require.Get(os.ReadFile("testdata/drive.js"))(t)
	text := strings.Replace(written(t, samplePage()), "</body>", fmt.Sprintf("<script>%s</script></body>", drive), 1)
	name := require.File(t, "page.html", text)
	for _, size := range []string{"1280,900", "500,900"} { // Chromium's windows are no narrower
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size="+size,
			"--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--dump-dom", "file://"+name)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		dom, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		require.Equal(t, "the console at "+size, "", regexp.MustCompile(`(?m)^.*CONSOLE.*$`).FindString(stderr.String()))
		_, driven, _ := strings.Cut(string(dom), `<pre id="driven">`)
		driven, _, _ = strings.Cut(driven, "</pre>")
		const want = "falling 4883c01d|rising 4883c000|model 4883c000|missing 4883c000|" +
			"found 4883c01d 1 of 30 blocks|of it 29 of 30 blocks, of other blocks|theme dark|width true"
		require.Equal(t, "the page at "+size, want, driven)
	}
}
