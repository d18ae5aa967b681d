package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"strconv"
	"strings"
)

// fonts lists the viewer's choices in order of preference.
const fonts = "Liberation Sans, Arimo, Arial, Helvetica, DejaVu Sans, sans-serif"

type svg struct {
	width, height float64
	body          bytes.Buffer
}

// number writes as many decimals as print can show.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

func short(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func list(points []point) string {
	var w strings.Builder
	for i, p := range points {
		if i > 0 {
			w.WriteByte(' ')
		}
		w.WriteString(short(p.x) + "," + short(p.y))
	}
	return w.String()
}

// paint returns the attributes of a colour, for stroke or fill.
func paint(what string, c color.NRGBA) string {
	s := fmt.Sprintf(`%s="#%02x%02x%02x"`, what, c.R, c.G, c.B)
	if c.A != 0xff {
		s += fmt.Sprintf(` %s-opacity="%s"`, what, short(float64(c.A)/0xff))
	}
	return s
}

func (s *svg) line(points []point, k stroke) {
	dashes := ""
	if k.dashed {
		dashes = fmt.Sprintf(` stroke-dasharray="%s %s"`, number(dash[0]), number(dash[1]))
	}
	fmt.Fprintf(&s.body, `<polyline fill="none" %s stroke-width="%s"%s points="%s"/>`+"\n", paint("stroke", k.colour), number(k.width), dashes, list(points))
}

func (s *svg) area(points []point, c color.NRGBA) {
	fmt.Fprintf(&s.body, `<polygon %s points="%s"/>`+"\n", paint("fill", c), list(points))
}

func (s *svg) disc(at point, radius float64, c color.NRGBA) {
	fmt.Fprintf(&s.body, `<circle cx="%s" cy="%s" r="%s" %s/>`+"\n", short(at.x), short(at.y), number(radius), paint("fill", c))
}

func (s *svg) text(l label) {
	turned := ""
	if l.up {
		turned = fmt.Sprintf(` transform="rotate(-90 %s %s)"`, short(l.at.x), short(l.at.y))
	}
	fmt.Fprintf(&s.body, `<text x="%s" y="%s" font-size="%s" text-anchor="%s" %s%s>`,
		short(l.at.x), short(l.at.y), number(l.size), [...]string{"start", "middle", "end"}[l.anchor], paint("fill", l.colour), turned)
	xml.EscapeText(&s.body, []byte(l.text)) // writes to a bytes.Buffer never fail
	s.body.WriteString("</text>\n")
}

func (s *svg) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]spt" height="%[2]spt" viewBox="0 0 %[1]s %[2]s" font-family="%[3]s">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%[4]s</svg>
`, short(s.width), short(s.height), fonts, s.body.String())
	return err
}
