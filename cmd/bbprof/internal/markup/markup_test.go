package markup

import (
	"errors"
	"testing"
)

func TestPrintf(t *testing.T) {
	var w Writer
	type name string
	w.Printf(`<b title="%s">%s</b>`, `"<&>'`, name("a<b"))
	w.Printf("%d %.1f %s %v", 1, 2.0, HTML("<i>x</i>"), errors.New("<y>"))
	want := HTML(`<b title="&#34;&lt;&amp;&gt;&#39;">a&lt;b</b>1 2.0 <i>x</i> &lt;y&gt;`)
	if got := w.HTML(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
