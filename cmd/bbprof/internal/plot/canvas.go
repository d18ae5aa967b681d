package plot

import "image/color"

// point is a position in points of 1/72 inch, from the upper left corner.
type point struct{ x, y float64 }

type anchor int

const (
	start anchor = iota
	middle
	end
)

// label is a line of text, positioned by its baseline.
type label struct {
	at     point
	text   string
	anchor anchor
	size   float64
	colour color.NRGBA
	up     bool // written upwards
}

type stroke struct {
	colour color.NRGBA
	width  float64
	dashed bool
}

// canvas is an svg, or a test's recorder.
type canvas interface {
	line(points []point, s stroke)
	area(points []point, c color.NRGBA) // a filled polygon
	disc(at point, radius float64, c color.NRGBA)
	text(l label)
}

var dash = [2]float64{4, 3}

// advances holds the widths of the characters from space to ~ in DejaVu Sans, the widest of the fonts, in thousandths
// of the font size (its table hmtx).
var advances = [...]float64{
	318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
	636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
	1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
	603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
	500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
	635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
}

// textWidth returns the space to reserve for a text, in points. Other characters count as the widest.
func textWidth(text string, size float64) float64 {
	width := 0.0
	for _, r := range text {
		if i := int(r - ' '); i >= 0 && i < len(advances) {
			width += advances[i]
		} else {
			width += 1000
		}
	}
	return width / 1000 * size
}
