// Package markup writes HTML and SVG and escapes all text. html/template is smarter about context, but it calls methods
// by name, which makes the linker keep every method: 2.3 MB of bbprof's 15.
package markup

import (
	"fmt"
	"html"
	"strings"
)

// HTML is markup already and is not escaped.
type HTML string

// Writer collects markup.
type Writer struct{ text strings.Builder }

// Printf adds markup, as Sprintf makes it.
func (w *Writer) Printf(format string, args ...any) {
	w.text.WriteString(string(Sprintf(format, args...)))
}

func (w *Writer) HTML() HTML { return HTML(w.text.String()) }

// Sprintf makes markup. Its arguments are text in an element or a quoted attribute, and are escaped unless they are
// numbers or HTML.
func Sprintf(format string, args ...any) HTML {
	escaped := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case HTML, int, float64:
			escaped[i] = arg
		default:
			escaped[i] = html.EscapeString(fmt.Sprint(arg))
		}
	}
	return HTML(fmt.Sprintf(format, escaped...))
}
