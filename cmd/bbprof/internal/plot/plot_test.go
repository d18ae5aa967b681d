package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gonum "gonum.org/v1/plot"
)

func example() Figure {
	x := []float64{0, 1, 2, 3}
	return Figure{
		Title: "a title", X: "the axis",
		Panels: []Panel{
			{Y: "cycles", Zero: true, Series: []Series{
				{Name: "first", X: x, Y: []float64{1, 2, 3, 4}, Low: []float64{0, 1, 2, 3}, High: []float64{2, 3, 4, 5}},
				{Name: "second", X: x, Y: []float64{4, 3, 2, 1}, Low: []float64{3, 2, 1, 0}, High: []float64{5, 4, 3, 2}, Dots: true},
			}},
			{Y: "constant", Series: []Series{{X: x, Y: []float64{0, 0, 0, 0}}}},
		},
	}
}

// TestSave: the file's ending chooses the format, and all that has to be read is in it.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	svg := filepath.Join(dir, "a.svg")
	if err := example().Save(svg); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a title", "the axis", "cycles", "constant", "first", "second"} {
		if !strings.Contains(string(text), ">"+want+"<") {
			t.Errorf("%q is not in the drawing", want)
		}
	}
	name := filepath.Join(dir, "a.PNG")
	if err := example().Save(name); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() < 900 || b.Dy() < 600 {
		t.Errorf("%v is too small for a page", b)
	}
}

func TestFormat(t *testing.T) {
	for name, want := range map[string]string{"a.svg": "svg", "x/A.PNG": "png", "a.b.pdf": "pdf", "a": "", "a.gif": "", "svg": "", ".svg.gz": ""} {
		got, err := Format(name)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if want == "" {
			if err := example().Save(filepath.Join(t.TempDir(), name)); err == nil {
				t.Errorf("%s is written", name)
			}
		}
	}
}

// TestBeside: side by side each panel has a title and an axis of its own, and what it draws itself.
func TestBeside(t *testing.T) {
	f := Figure{Beside: true, Panels: []Panel{
		{Title: "left", X: "its axis", Y: "cycles", Series: example().Panels[0].Series},
		{Title: "right", X: "another", Y: "layouts", Draw: func(p *gonum.Plot) error {
			p.NominalX("drawn")
			return nil
		}},
	}}
	for _, format := range Formats() {
		var out bytes.Buffer
		if err := f.Draw(&out, format); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if format != "svg" {
			continue
		}
		for _, want := range []string{"left", "right", "its axis", "another", "drawn", "first"} {
			if !strings.Contains(out.String(), ">"+want+"<") {
				t.Errorf("%q is not in the drawing", want)
			}
		}
	}
	f.Panels[1].Draw = func(*gonum.Plot) error { return io.ErrUnexpectedEOF }
	if err := f.Draw(io.Discard, "svg"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestEqual: the same figure is the same file, so that pictures can be kept under version control.
func TestEqual(t *testing.T) {
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if err := example().Draw(w, "svg"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two drawings of one figure differ")
	}
}
