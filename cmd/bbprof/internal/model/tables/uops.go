package tables

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// uopsInstruction is an instruction in uops.info's instructions.xml (uops.info/xml.html).
type uopsInstruction struct {
	ASM      string        `xml:"asm,attr"` // maybe with an encoding, such as {load}, before it
	String   string        `xml:"string,attr"`
	EVEX     string        `xml:"evex,attr"`
	Operands []uopsOperand `xml:"operand"`
	Cores    []struct {
		Name     string            `xml:"name,attr"`
		Measured []uopsMeasurement `xml:"measurement"`
	} `xml:"architecture"`
}

type uopsOperand struct {
	Index      string `xml:"idx,attr"`
	Type       string `xml:"type,attr"`
	Width      string `xml:"width,attr"`
	Suppressed string `xml:"suppressed,attr"` // 1 of what assembly does not show
	Text       string `xml:",chardata"`       // registers that can stand there
}

type uopsMeasurement struct {
	Loop      string `xml:"TP_loop,attr"`
	Unrolled  string `xml:"TP_unrolled,attr"`
	Latencies []struct {
		From   string `xml:"start_op,attr"`
		To     string `xml:"target_op,attr"`
		Cycles string `xml:"cycles,attr"`
		Most   string `xml:"max_cycles,attr"`
		Bound  string `xml:"max_cycles_is_upper_bound,attr"`
	} `xml:"latency"`
}

var uopsStart = regexp.MustCompile(`^(?:\x{feff})?\s*<(?:\?xml|root|!--)`)

// isUopsInfo reports whether a file that begins so is XML.
func isUopsInfo(start []byte) bool { return uopsStart.Match(start) }

// readUopsInfo reads what uops.info measured on a core, such as ADL-P; the core may be left out where there is one. Masked
// forms are left out. A latency is the largest between registers of one kind that assembly shows.
func readUopsInfo(r io.Reader, core string) (t Table, err error) {
	t = Table{Published: true, Counted: true}
	seen, cores := map[string]bool{}, map[string]bool{}
	for d := xml.NewDecoder(r); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return t, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "instruction" {
			continue
		}
		var in uopsInstruction
		if err := d.DecodeElement(&in, &start); err != nil {
			return t, err
		}
		form, shown := in.form()
		for _, c := range in.Cores {
			if len(c.Measured) == 0 {
				continue
			}
			cores[c.Name] = true
			switch {
			case core != "" && c.Name != core || shown == nil || seen[c.Name+" "+form]:
			case form == "":
				t.Unmatched = append(t.Unmatched, in.String)
			default:
				seen[c.Name+" "+form] = true
				t.Forms = append(t.Forms, c.Measured[0].numbers(form, shown))
			}
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(cores)), ", ")
	switch {
	case len(cores) == 0:
		return t, errors.New("it holds no measurement of an instruction as uops.info's instructions.xml does")
	case core != "" && !cores[core]:
		return t, fmt.Errorf("nothing in it was measured on %s; there are %s", core, names)
	case core == "" && len(cores) > 1:
		return t, fmt.Errorf("it was measured on several cores; name one behind the file's name and #: %s", names)
	}
	return t, nil
}

// form is the instruction's form, empty if there is none, and the kind of each operand that assembly shows, by its number; nil
// of what is masked or has an operand of another kind.
func (in *uopsInstruction) form() (string, map[string]string) {
	words := strings.Fields(strings.ToLower(in.ASM))
	if len(words) == 0 {
		return "", nil
	}
	var list []string
	shown := map[string]string{}
	for _, o := range in.Operands {
		if o.Suppressed == "1" {
			continue
		}
		kind := o.kind()
		if kind == "" || kind == "k" && words[len(words)-1][0] != 'k' && len(list) == 1 {
			return "", nil
		}
		list, shown[o.Index] = append(list, kind), kind
	}
	form := strings.TrimSpace(words[len(words)-1] + " " + strings.Join(list, ", "))
	if in.EVEX == "1" && asm.FormNamed("{evex} "+form) != nil {
		form = "{evex} " + form
	}
	if asm.FormNamed(form) == nil {
		form = ""
	}
	return form, shown
}

var vectorKinds = map[byte]string{'X': "xmm", 'Y': "ymm", 'Z': "zmm", 'M': "mm", 'K': "k"}

// kind is what a form calls an operand, empty if no form has such.
func (o uopsOperand) kind() string {
	text := strings.TrimSpace(o.Text)
	first, _, several := strings.Cut(text, ",")
	switch {
	case o.Type == "mem":
		return "m" + o.Width
	case o.Type == "agen":
		return "m"
	case o.Type == "imm" && text != "":
		return text
	case o.Type == "imm":
		return "i" + o.Width
	case o.Type != "reg" || first == "":
		return ""
	case !several:
		return strings.ToLower(first)
	}
	if kind := vectorKinds[first[0]]; kind != "" {
		return kind
	}
	return "r" + o.Width
}

func (m *uopsMeasurement) numbers(form string, shown map[string]string) Numbers {
	n := Numbers{Form: form, Latency: math.NaN(), Throughput: number(m.Loop)}
	if unrolled := number(m.Unrolled); math.IsNaN(n.Throughput) || unrolled < n.Throughput {
		n.Throughput = unrolled
	}
	for _, l := range m.Latencies {
		kind, cycles := shown[l.From], number(l.Cycles)
		if math.IsNaN(cycles) && l.Bound == "" {
			cycles = number(l.Most)
		}
		if kind != "" && (kind == "mm" || kind[0] != 'm') && kind == shown[l.To] && !math.IsNaN(cycles) {
			n.Latency = larger(n.Latency, cycles)
		}
	}
	return n
}
