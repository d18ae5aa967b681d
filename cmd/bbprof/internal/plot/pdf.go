package plot

import (
	"image/color"
	"io"
	"time"

	"codeberg.org/go-pdf/fpdf"
)

// pdf uses Helvetica, which every reader of PDF has and no file embeds.
type pdf struct {
	*fpdf.Fpdf
	encode func(string) string // to the font's code page
}

func newPDF(width, height float64) *pdf {
	f := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: width, Ht: height}})
	f.SetMargins(0, 0, 0)
	f.SetAutoPageBreak(false, 0)
	f.SetCreationDate(time.Unix(0, 0).UTC()) // the same figure is the same file
	f.SetModificationDate(time.Unix(0, 0).UTC())
	f.SetCatalogSort(true)
	f.AddPage()
	f.SetLineJoinStyle("round")
	return &pdf{f, f.UnicodeTranslatorFromDescriptor("")}
}

func (p *pdf) line(points []point, s stroke) {
	p.SetDrawColor(int(s.colour.R), int(s.colour.G), int(s.colour.B))
	p.SetAlpha(float64(s.colour.A)/0xff, "Normal")
	p.SetLineWidth(s.width)
	p.SetDashPattern(nil, 0)
	if s.dashed {
		p.SetDashPattern(dash[:], 0)
	}
	for i, at := range points {
		if i == 0 {
			p.MoveTo(at.x, at.y)
		} else {
			p.LineTo(at.x, at.y)
		}
	}
	p.DrawPath("D")
}

func (p *pdf) fill(c color.NRGBA) {
	p.SetFillColor(int(c.R), int(c.G), int(c.B))
	p.SetAlpha(float64(c.A)/0xff, "Normal")
}

func (p *pdf) area(points []point, c color.NRGBA) {
	p.fill(c)
	polygon := make([]fpdf.PointType, len(points))
	for i, at := range points {
		polygon[i] = fpdf.PointType{X: at.x, Y: at.y}
	}
	p.Polygon(polygon, "F")
}

func (p *pdf) disc(at point, radius float64, c color.NRGBA) {
	p.fill(c)
	p.Circle(at.x, at.y, radius, "F")
}

func (p *pdf) text(l label) {
	text := p.encode(l.text)
	p.SetFont("Helvetica", "", l.size)
	p.SetTextColor(int(l.colour.R), int(l.colour.G), int(l.colour.B))
	p.SetAlpha(1, "Normal")
	x := l.at.x - p.GetStringWidth(text)*float64(l.anchor)/2
	if !l.up {
		p.Text(x, l.at.y, text)
		return
	}
	p.TransformBegin()
	p.TransformRotate(90, l.at.x, l.at.y)
	p.Text(x, l.at.y, text)
	p.TransformEnd()
}

func (p *pdf) write(w io.Writer) error { return p.Output(w) }
