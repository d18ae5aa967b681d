package tables

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// instLatLine matches a line of InstLatx64: instruction, latency, throughput.
var instLatLine = regexp.MustCompile(`^(?:Inst)? *\d+ \S+ *:(.*?) +L: *(?:\[[^\]]*\]|[\d.]+ns= *([\d.]+)c) +T: *(?:\[[^\]]*\]|[\d.]+ns= *([\d.]+)c)`)

// readInstLat reads the register forms of InstLatx64. It omits memory operands, pairs of instructions, masks and
// divisions of stated values. Of a form's lines the one with different registers counts, because of idioms; but for
// latencies of moves the one with equal registers, because others are eliminated.
func readInstLat(text string) Table {
	t := Table{Published: true}
	at, differs := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(text) {
		m := instLatLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		form, distinct, ok := instLatForm(m[1])
		if !ok {
			continue
		}
		if form == "" {
			t.Unmatched = append(t.Unmatched, strings.TrimSpace(m[1]))
			continue
		}
		n := Numbers{Form: form, Latency: number(m[2]), Throughput: number(m[3])}
		i, again := at[form]
		if !again {
			at[form], differs[form] = len(t.Forms), distinct
			t.Forms = append(t.Forms, n)
			continue
		}
		if distinct == differs[form] {
			continue
		}
		if distinct == (registerSources(form) > 1) {
			t.Forms[i].Latency = n.Latency
		}
		if distinct {
			t.Forms[i].Throughput = n.Throughput
		}
	}
	return t
}

func registerSources(form string) (n int) {
	for _, o := range asm.FormNamed(form).Operands() {
		if register(o) && o.Read {
			n++
		}
	}
	return n
}

var (
	instLatRegister = regexp.MustCompile(`^(?:r(?:([12])_)?(8|16|32|64)|(xmm|ymm|zmm|xm|ym|zm|x|y|z|mm|k)([0-9]?))$`)
	instLatOther    = regexp.MustCompile(`^(?:(?:imm?|i)(?:8|16|32|64)|1|cl|al|ax|eax|rax|st|st\(i\)|xmm0)$`)
)

// instLatNames maps mnemonics to bbprof's.
var instLatNames = map[string]string{"cmovnz": "cmovne", "setc": "setb", "cmovc": "cmovb", "aeskeygen": "aeskeygenassist", "vaeskeygen": "vaeskeygenassist",
	"vptestps": "vtestps", "vptestpd": "vtestpd"}

// instLatForm returns bbprof's form of an InstLatx64 instruction, empty if there is none, and whether its registers
// differ. ok is false if it is no register form.
func instLatForm(text string) (form string, distinct, ok bool) {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "[+(/") && !strings.Contains(text, "st(i)") || strings.Contains(text, "pair") {
		return "", false, false
	}
	text, evex := strings.CutPrefix(text, "{EVEX}")
	text = strings.TrimSpace(strings.TrimPrefix(text, "{VEX}"))
	name, rest, _ := strings.Cut(strings.ToLower(text), " ")
	if other := instLatNames[name]; other != "" {
		name = other
	}
	var list []string
	numbers := map[string]bool{}
	for o := range strings.SplitSeq(rest, ",") {
		o = strings.TrimSpace(o)
		m := instLatRegister.FindStringSubmatch(o)
		switch {
		case o == "":
		case m != nil && m[2] != "":
			list, numbers[m[1]] = append(list, "r"+m[2]), true
		case m != nil:
			kind := m[3]
			if kind != "mm" && kind != "k" { // xmm, cut off at the column's end
				kind = kind[:1] + "mm"
			}
			list, numbers[m[4]] = append(list, kind), true
		case instLatOther.MatchString(o):
			list = append(list, strings.NewReplacer("imm", "i", "im", "i").Replace(o))
		default:
			return "", false, false
		}
	}
	tries := [][]string{list}
	if len(list) > 1 { // an immediate or source implied there, or one too many
		tries = append(tries, slices.Concat(list, []string{"i8"}), slices.Concat(list[:1], list), slices.Concat(list[:1], list[2:]))
	}
	for _, operands := range tries {
		form = strings.TrimSpace(name + " " + strings.Join(operands, ", "))
		if evex && asm.FormNamed("{evex} "+form) != nil {
			form = "{evex} " + form
		}
		if asm.FormNamed(form) == nil && name == "movd" { // 64-bit
			form = "movq" + form[len("movd"):]
		}
		if asm.FormNamed(form) != nil {
			return form, len(numbers) > 1, true
		}
	}
	return "", false, true
}
