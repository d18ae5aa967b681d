package resources

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// class is forms with the same uses.
type class struct {
	Uses  []float64 // their means
	Forms []string
}

// Classes groups the forms by use, the 80 largest first. Unmeasured uses count as 0.
func (t *Table) Classes() (list []class) {
	const step, most = 0.1, 80 // cycles, or share of the use
	by := map[string]int{}
	for i := range t.Forms {
		var key strings.Builder
		for _, u := range t.Forms[i].Uses {
			width := max(step, u.Share*step)
			fmt.Fprintf(&key, "%.2f ", math.Round(u.Share/width)*width)
		}
		at, known := by[key.String()]
		if !known {
			at = len(list)
			by[key.String()] = at
			list = append(list, class{Uses: make([]float64, len(t.Resources))})
		}
		c := &list[at]
		c.Forms = append(c.Forms, t.Forms[i].Name)
		for r, u := range t.Forms[i].Uses {
			c.Uses[r] += (u.Share - c.Uses[r]) / float64(len(c.Forms))
		}
	}
	slices.SortStableFunc(list, func(a, b class) int { return cmp.Compare(len(b.Forms), len(a.Forms)) })
	return list[:min(len(list), most)]
}

// Text names the first forms.
func (c class) Text() string {
	const shown, longest = 3, 58
	return words.Cut(strings.Join(c.Forms[:min(len(c.Forms), shown)], "; "), longest)
}

// Dark is how dark a use is drawn: by its part of the form's time.
func (c class) Dark(use float64) float64 { return 0.1 + 0.7*use/slices.Max(c.Uses) }

// letter numbers resources A to Z, then A1 to Z1, and so on.
func letter(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += strconv.Itoa(i / 26)
	}
	return s
}

//go:embed page.html
var page string

// WritePage writes a self-contained page: the resources, and a matrix of what each class of forms uses of them.
func (t *Table) WritePage(w io.Writer) error {
	functions := template.FuncMap{"letter": letter, "join": func(forms []string) string { return strings.Join(forms, "; ") },
		"x": func(resource int) int { return 440 + 44*resource },
		"y": func(row int) int { return 31 + 18*row },
	}
	return template.Must(template.New("page").Funcs(functions).Parse(page)).Execute(w, t)
}
