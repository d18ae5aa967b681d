package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func example() Figure {
	x := []float64{0, 1, 2, 3}
	return Figure{
		Title: "a title", Subject: "block 4801c0", Machine: "a CPU", Keys: []string{"1 one thing", "2 another"},
		Panels: []Panel{
			{Y: "cycles", Zero: true, Series: []Series{
				{Name: "first", X: x, Y: []float64{1, 2, 3, 4}, Low: []float64{0, 1, 2, 3}, High: []float64{2, 3, 4, 5}},
				{Name: "second", X: x, Y: []float64{4, 3, 2, 1}, Low: []float64{3, 2, 1, 0}, High: []float64{5, 4, 3, 2}, Kind: Dots},
			}},
			{X: "the axis", Y: "constant", Series: []Series{{X: x, Y: []float64{0, 0, 0, 0}}}},
		},
	}
}

// beside uses every feature of panels side by side.
func beside() Figure {
	return Figure{Subject: strings.Repeat("4801c0", 60), Beside: true, Panels: []Panel{
		{Title: "left", X: "its axis", Y: "cycles", Series: example().Panels[0].Series},
		{Title: "middle", Y: "cycles a run", Names: []string{"op cache residency", "b\nrejected"}, Series: []Series{
			{Kind: Dots, X: []float64{0.2, 1.2}, Y: []float64{2e9, 3e9}},
			{Kind: Boxes, Width: 0.25, X: []float64{0, 1}, Values: [][]float64{{1e9, 2e9, 4e9}, {3e9}}},
		}},
		{Title: "right", X: "another", Y: "layouts", Series: []Series{
			{Kind: Bars, Width: 1, X: []float64{-1, 0, 1}, Y: []float64{2, 5, 1}},
			{Name: "mean", Kind: Dots, Across: true, X: []float64{0.2}, Y: []float64{5.5}, Low: []float64{-3}, High: []float64{3}},
			{Name: "no difference", Kind: Rule, X: []float64{0}},
		}},
	}}
}

// odd is a figure of degenerate measurements.
func odd() Figure {
	nan, inf := math.NaN(), math.Inf(1)
	return Figure{Panels: []Panel{
		{Y: "nothing"},
		{Y: "nothing finite", Series: []Series{{X: []float64{0, nan}, Y: []float64{nan, inf}, Low: []float64{nan, nan}, High: []float64{inf, inf}}}},
		{Y: "a gap", Series: []Series{{X: []float64{0, 1, 2, 3}, Y: []float64{1, nan, 2, 3}}, {Kind: Boxes, X: []float64{1}, Values: [][]float64{nil}}}},
		{Y: "one point", Series: []Series{{Kind: Dots, X: []float64{7}, Y: []float64{1e-12}, Low: []float64{0}, High: []float64{inf}}}},
	}}
}

// TestTicks: a tick's label states its exact position.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		most      int
		step      float64
		want      string
	}{
		{0, 1, 5, 0, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 1, 4, 0, "0.0 0.5 1.0"},
		{-0.3, 0.3, 6, 0, "-0.3 -0.2 -0.1 0.0 0.1 0.2 0.3"},
		{1.914, 2.703, 5, 0, "2.0 2.2 2.4 2.6"},
		{0.99, 1.01, 4, 0, "0.990 0.995 1.000 1.005 1.010"},
		{0, 25, 10, 0, "0 5 10 15 20 25"},
		{0, 99999, 5, 0, "0 20000 40000 60000 80000"},
		{0, 8192, 10, 1024, "0 1024 2048 3072 4096 5120 6144 7168 8192"},
		{0, 8192, 5, 1024, "0 2048 4096 6144 8192"},
		{100, 1000, 10, 256, "256 512 768"},
	} {
		var labels []string
		for _, tick := range ticks(span{c.low, c.high}, c.most, c.step) {
			if v, err := strconv.ParseFloat(tick.label, 64); err != nil || math.Abs(v-tick.value) > 1e-9*math.Max(1, math.Abs(v)) {
				t.Errorf("the tick at %v says %q", tick.value, tick.label)
			}
			labels = append(labels, tick.label)
		}
		require.Equal(t, fmt.Sprintf("%v to %v, at most %d", c.low, c.high, c.most), c.want, strings.Join(labels, " "))
	}
}

// A drawn is an element of a drawing.
type drawn struct {
	XMLName xml.Name
	X       float64 `xml:"x,attr"`
	Y       float64 `xml:"y,attr"`
	Size    float64 `xml:"font-size,attr"`
	Anchor  string  `xml:"text-anchor,attr"`
	Turned  string  `xml:"transform,attr"`
	Points  string  `xml:"points,attr"`
	Width   string  `xml:"stroke-width,attr"`
	Text    string  `xml:",chardata"`
}

// area is what a text may cover, or what axes enclose.
type area struct{ left, top, right, bottom float64 }

func (a area) meets(b area) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

func (d drawn) area() area {
	w, h := textWidth(d.Text, d.Size), 0.75*d.Size
	along := map[string]float64{"middle": -w / 2, "end": -w}[d.Anchor]
	if d.Turned != "" {
		return area{d.X - h, d.Y - along - w, d.X, d.Y - along}
	}
	return area{d.X + along, d.Y - h, d.X + along + w, d.Y}
}

// TestDraw: a drawing has all text, and none covers another, leaves the page, or overlaps data.
func TestDraw(t *testing.T) {
	wide := example()
	wide.Panels[0].Y = "effect, % of the cycles without, and some more words"
	wide.Panels[1].Names = []string{"4K aliasing", "frame sharing", "line splits", "code alignment", "subnormals", "L1I residency", "op cache residency"}
	dense := Figure{Ticks: 1, Panels: []Panel{{X: "bytes", Y: "cycles", Series: []Series{{X: []float64{0, 100000}, Y: []float64{1, 1.00001}}}}}}
	for name, f := range map[string]Figure{"example": example(), "beside": beside(), "odd": odd(), "wide": wide, "dense": dense, "empty": {}} {
		var text bytes.Buffer
		require.NoError(t, f.Draw(&text))
		if strings.Contains(text.String(), "NaN") {
			t.Errorf("%s: a place is not a number:\n%s", name, &text)
		}
		var page struct {
			Height string  `xml:"height,attr"`
			All    []drawn `xml:",any"`
		}
		require.NoError(t, xml.Unmarshal(text.Bytes(), &page))
		height := require.Get(strconv.ParseFloat(strings.TrimSuffix(page.Height, "pt"), 64))(t)
		var texts []drawn
		var axes []area
		for _, d := range page.All {
			if d.XMLName.Local == "text" && d.Text != "" {
				texts = append(texts, d)
			}
			var a area
			if n, _ := fmt.Sscanf(d.Points, "%f,%f %f,%f %f,%f", &a.left, &a.top, &a.left, &a.bottom, &a.right,
				&a.bottom); n == 6 && d.Width == "0.7" && strings.Count(d.Points, " ") == 2 {
				axes = append(axes, a)
			}
		}
		require.Equal(t, name+": axes", len(f.Panels), len(axes))
		for _, want := range []string{"a title", "block 4801c0", "a CPU", "1 one thing", "2 another", "cycles",
			"first", "second", "the axis", "constant"} {
			if name == "example" && !slices.ContainsFunc(texts, func(d drawn) bool { return d.Text == want }) {
				t.Errorf("%q is not in the drawing", want)
			}
		}
		for i, d := range texts {
			a := d.area()
			if a.left < 0 || a.top < 0 || a.right > figureWidth || a.bottom > height {
				t.Errorf("%s: %q leaves the page: %+v of %.0f × %.0f", name, d.Text, a, figureWidth, height)
			}
			for _, other := range texts[i+1:] {
				if a.meets(other.area()) {
					t.Errorf("%s: %q and %q overlap", name, d.Text, other.Text)
				}
			}
			for _, data := range axes {
				if a.meets(data) {
					t.Errorf("%s: %q is within the axes", name, d.Text)
				}
			}
		}
	}
}
