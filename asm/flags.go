package asm

import "strings"

// Flags is a set of status flags.
type Flags uint8

const (
	Carry Flags = 1 << iota
	Parity
	Adjust
	Zero
	Sign
	Overflow
	AllFlags = Carry | Parity | Adjust | Zero | Sign | Overflow
)

// Flags are the status flags that a form waits for and those that it writes, undefined ones included but for bt and
// its like, which leave them alone (measured on Golden Cove). Shifts by cl and repeated comparisons wait for all: a
// count of 0 leaves them as they were.
func (f *Form) Flags() (read, written Flags) {
	return f.raw.flags()
}

// flags are those of Form.Flags (SDM vol. 1, appendix A, "EFLAGS cross-reference", and the pages of vol. 2 for newer
// instructions).
func (d *rawInst) flags() (read, written Flags) {
	name := d.form.name
	for _, prefix := range []string{"cmov", "set", "fcmov", "j"} {
		if condition, ok := strings.CutPrefix(name, prefix); ok && conditions[condition] != 0 {
			return conditions[condition], 0
		}
	}
	if strings.HasSuffix(name, "xadd") { // cmpbxadd and its like, too
		return 0, AllFlags
	}
	f, ok := flagsOf[name]
	if !ok {
		return 0, 0
	}
	read, written = f[0], f[1]
	if n := len(d.form.ops); n > 0 && (d.form.ops[n-1].name == "cl" || d.form.ops[n-1].kind == opY && d.rep != 0) { // a shift, cmps or scas
		read |= written
	}
	return read, written
}

// conditions are the flags that a condition depends on (SDM vol. 1, appendix B).
var conditions = map[string]Flags{
	"o": Overflow, "no": Overflow, "b": Carry, "ae": Carry, "e": Zero, "ne": Zero, "be": Carry | Zero, "a": Carry | Zero,
	"s": Sign, "ns": Sign, "p": Parity, "np": Parity, "l": Sign | Overflow, "ge": Sign | Overflow, "le": Zero | Sign | Overflow, "g": Zero | Sign | Overflow,
	"nb": Carry, "nbe": Carry | Zero, "u": Parity, "nu": Parity, // of fcmovcc
}

var flagsOf = func() map[string][2]Flags {
	m := make(map[string][2]Flags)
	for _, group := range []struct {
		read, written Flags
		names         string
	}{
		{0, AllFlags, "add sub and or xor cmp test neg shl shr sar shld shrd mul imul div idiv tzcnt lzcnt popcnt bsf bsr cmpxchg " +
			"cmps scas andn bextr blsi blsr blsmsk bzhi popf iret syscall rdrand rdseed " +
			"comiss comisd ucomiss ucomisd vcomiss vcomisd vucomiss vucomisd vcomish vucomish ptest vptest vtestps vtestpd " +
			"kortestb kortestw kortestd kortestq ktestb ktestw ktestd ktestq " +
			"pcmpestri pcmpestrm pcmpistri pcmpistrm vpcmpestri vpcmpestrm vpcmpistri vpcmpistrm fcomi fcomip fucomi fucomip"},
		{Carry, AllFlags, "adc sbb"},
		{0, AllFlags &^ Carry, "inc dec"},
		{0, Zero, "cmpxchg8b cmpxchg16b lar lsl verr verw"},
		{Zero, 0, "loope loopne"},
		{0, AllFlags &^ Overflow, "sahf"},
		{AllFlags &^ Overflow, 0, "lahf"},
		{0, Carry | Overflow, "rol ror"},
		{Carry, Carry | Overflow, "rcl rcr"},
		{0, Carry, "bt bts btr btc clc stc"},
		{Carry, Carry, "cmc adcx"},
		{Overflow, Overflow, "adox"},
		{AllFlags, 0, "pushf"},
	} {
		for name := range strings.FieldsSeq(group.names) {
			m[name] = [2]Flags{group.read, group.written}
		}
	}
	return m
}()
