package plot

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// fonts lists the viewer's choices in order of preference.
const fonts = "Liberation Sans, Arimo, Arial, Helvetica, DejaVu Sans, sans-serif"

// point is a position in points of 1/72 inch, from the upper left corner.
type point struct{ x, y float64 }

// label is a line of text, positioned by its baseline.
type label struct {
	at     point
	text   string
	anchor string  // "" is start
	size   float64 // 0 is typeSize
	colour string  // "" is ink
	up     bool    // written upwards
}

type stroke struct {
	colour string
	width  float64
	dashed bool
}

type svg struct{ body bytes.Buffer }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.body, format+"\n", args...) }

// short writes a number with as many decimals as print can show.
func short(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func list(points []point) string {
	var all []string
	for _, p := range points {
		all = append(all, short(p.x)+","+short(p.y))
	}
	return strings.Join(all, " ")
}

func (s *svg) line(k stroke, points ...point) {
	dashes := ""
	if k.dashed {
		dashes = ` stroke-dasharray="4 3"`
	}
	s.add(`<polyline fill="none" stroke="%s" stroke-width="%s"%s points="%s"/>`, k.colour, short(k.width), dashes, list(points))
}

// area fills a polygon.
func (s *svg) area(colour string, opacity float64, points ...point) {
	s.add(`<polygon fill="%s" fill-opacity="%s" points="%s"/>`, colour, short(opacity), list(points))
}

func (s *svg) disc(at point, colour string) {
	s.add(`<circle cx="%s" cy="%s" r="2.2" fill="%s"/>`, short(at.x), short(at.y), colour)
}

func (s *svg) text(l label) {
	x, y, attributes := short(l.at.x), short(l.at.y), ""
	if l.anchor != "" {
		attributes = fmt.Sprintf(` text-anchor="%s"`, l.anchor)
	}
	if l.up {
		attributes += fmt.Sprintf(` transform="rotate(-90 %s %s)"`, x, y)
	}
	var text strings.Builder
	xml.EscapeText(&text, []byte(l.text)) // writes to a strings.Builder never fail
	s.add(`<text x="%s" y="%s" font-size="%s" fill="%s"%s>%s</text>`, x, y, short(cmp.Or(l.size, typeSize)), cmp.Or(l.colour, ink), attributes, &text)
}

func (s *svg) write(w io.Writer, width, height float64) error {
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]spt" height="%[2]spt" viewBox="0 0 %[1]s %[2]s" font-family="%[3]s">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%[4]s</svg>
`, short(width), short(height), fonts, s.body.String())
	return err
}

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
