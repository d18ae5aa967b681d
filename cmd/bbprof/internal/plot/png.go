package plot

import (
	"image/color"
	"io"
	"math"

	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
)

// pngScale is pixels a point: 150 dots an inch.
const pngScale = 150.0 / 72

type picture struct {
	*gg.Context
	faces map[float64]font.Face // by size in points
}

func newPNG(width, height float64) (*picture, error) {
	p := &picture{gg.NewContext(int(math.Ceil(width*pngScale)), int(math.Ceil(height*pngScale))), map[float64]font.Face{}}
	p.SetColor(color.White)
	p.Clear()
	for _, size := range []float64{typeSize, smallSize} {
		face, err := newFace(size * pngScale)
		if err != nil {
			return nil, err
		}
		p.faces[size] = face
	}
	return p, nil
}

func (p *picture) path(points []point) {
	for i, at := range points {
		if i == 0 {
			p.MoveTo(at.x*pngScale, at.y*pngScale)
		} else {
			p.LineTo(at.x*pngScale, at.y*pngScale)
		}
	}
}

func (p *picture) line(points []point, s stroke) {
	p.SetColor(s.colour)
	p.SetLineWidth(s.width * pngScale)
	p.SetDash()
	if s.dashed {
		p.SetDash(dash[0]*pngScale, dash[1]*pngScale)
	}
	p.path(points)
	p.Stroke()
}

func (p *picture) area(points []point, c color.NRGBA) {
	p.SetColor(c)
	p.path(points)
	p.ClosePath()
	p.Fill()
}

func (p *picture) disc(at point, radius float64, c color.NRGBA) {
	p.SetColor(c)
	p.DrawCircle(at.x*pngScale, at.y*pngScale, radius*pngScale)
	p.Fill()
}

func (p *picture) text(l label) {
	p.SetColor(l.colour)
	p.SetFontFace(p.faces[l.size])
	x, y := l.at.x*pngScale, l.at.y*pngScale
	p.Push()
	if l.up {
		p.RotateAbout(-math.Pi/2, x, y)
	}
	p.DrawStringAnchored(l.text, x, y, float64(l.anchor)/2, 0)
	p.Pop()
}

func (p *picture) write(w io.Writer) error { return p.EncodePNG(w) }
