package plot

import (
	"fmt"
	"image/color"
	"io"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// point is a place in points of 1/72 inch, from the upper left corner.
type point struct{ x, y float64 }

type anchor int

const (
	start anchor = iota
	middle
	end
)

// label is a line of text. Its baseline is at its place.
type label struct {
	at     point
	text   string
	anchor anchor
	size   float64
	colour color.NRGBA
	up     bool // written from the bottom to the top
}

type stroke struct {
	colour color.NRGBA
	width  float64
	dashed bool
}

type canvas interface {
	line(points []point, s stroke)
	area(points []point, c color.NRGBA) // a filled polygon
	disc(at point, radius float64, c color.NRGBA)
	text(l label)
	write(w io.Writer) error
}

func newCanvas(format string, width, height float64) (canvas, error) {
	switch format {
	case "svg":
		return &svg{width: width, height: height}, nil
	case "png":
		return newPNG(width, height)
	case "pdf":
		return newPDF(width, height), nil
	}
	return nil, fmt.Errorf("no format is called %q", format)
}

var dash = [2]float64{4, 3}

var parsed = sync.OnceValues(func() (*opentype.Font, error) { return opentype.Parse(goregular.TTF) })

// newFace is the embedded font at a size in pixels.
func newFace(pixels float64) (font.Face, error) {
	f, err := parsed()
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: pixels, DPI: 72, Hinting: font.HintingNone})
}

// unitSize is the size that text is measured at; a larger one would gain nothing.
const unitSize = 100

var unitFace = sync.OnceValues(func() (font.Face, error) { return newFace(unitSize) })

// reserve is how much wider than the embedded font the widest of the list for SVG is, with a margin:
// DejaVu Sans is some 3 % wider.
const reserve = 1.06

// textWidth is the room to leave for a text, in points. Where the font cannot be read, which would be a
// broken build, it is a guess of half the size for each character.
func textWidth(text string, size float64) float64 {
	face, err := unitFace()
	if err != nil {
		return float64(len([]rune(text))) * size / 2
	}
	var width fixed.Int26_6
	for _, r := range text {
		advance, _ := face.GlyphAdvance(r)
		width += advance
	}
	return reserve * float64(width) / 64 * size / unitSize
}
