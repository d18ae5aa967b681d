package forms

import (
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// Flags is a set of status flags.
type Flags uint8

const (
	Carry Flags = 1 << iota
	Zero
	Sign
	Overflow
	Parity
)

const (
	allFlags = Carry | Zero | Sign | Overflow | Parity
	noCarry  = allFlags &^ Carry
)

// conditions are what the conditions of cmovcc, setcc and their like read (Intel SDM vol. 1, appendix B).
var conditions = map[string]Flags{
	"o": Overflow, "no": Overflow, "b": Carry, "ae": Carry, "e": Zero, "ne": Zero, "be": Carry | Zero, "a": Carry | Zero,
	"s": Sign, "ns": Sign, "p": Parity, "np": Parity, "l": Sign | Overflow, "ge": Sign | Overflow,
	"le": Zero | Sign | Overflow, "g": Zero | Sign | Overflow,
	"nb": Carry, "nbe": Carry | Zero, "u": Parity, "nu": Parity, // of fcmovcc
}

// flagsWritten are those of general instructions, whatever the result (Intel SDM vol. 1, appendix A).
// What is undefined counts as written.
var flagsWritten = func() map[string]Flags {
	m := map[string]Flags{}
	add := func(f Flags, names string) {
		for name := range strings.FieldsSeq(names) {
			m[name] = f
		}
	}
	add(allFlags, "add adc sub sbb cmp neg and or xor test shl shr sar shld shrd mul imul xadd cmpxchg popcnt lzcnt tzcnt sahf popf cmps scas"+
		" andn bextr blsi blsr blsmsk bzhi comiss comisd ucomiss ucomisd vcomiss vcomisd vucomiss vucomisd vcomish vucomish"+
		" ptest vptest vtestps vtestpd pcmpestri pcmpestrm pcmpistri pcmpistrm vpcmpestri vpcmpestrm vpcmpistri vpcmpistrm"+
		" kortestb kortestw kortestd kortestq ktestb ktestw ktestd ktestq fcomi fcomip fucomi fucomip div idiv")
	add(noCarry, "inc dec")
	add(Carry, "bt bts btr btc cmc clc stc adcx")
	add(Carry|Overflow, "rol ror rcl rcr")
	add(Overflow, "adox")
	add(Zero, "bsf bsr cmpxchg8b cmpxchg16b")
	return m
}()

var flagsRead = map[string]Flags{
	"adc": Carry, "sbb": Carry, "rcl": Carry, "rcr": Carry, "cmc": Carry, "adcx": Carry, "adox": Overflow, "lahf": allFlags, "pushf": allFlags,
}

// FlagsOf are the status flags that a form reads and writes. A shift by cl reads those that it writes:
// where the count is 0 it leaves them.
func FlagsOf(f *asm.Form) (read, written Flags) {
	name := f.Mnemonic()
	read, written = flagsRead[name], flagsWritten[name]
	for _, prefix := range [...]string{"cmov", "set", "fcmov"} {
		if cc, ok := strings.CutPrefix(name, prefix); ok {
			read |= conditions[cc]
		}
	}
	if strings.HasSuffix(f.Name(), ", cl") {
		read |= written
	}
	return read, written
}

// Condition is one that reads a flag of the set, "" if it is empty.
func (f Flags) Condition() string {
	switch {
	case f&Carry != 0:
		return "b"
	case f&Zero != 0:
		return "e"
	case f&Overflow != 0:
		return "o"
	case f&Sign != 0:
		return "s"
	case f&Parity != 0:
		return "p"
	}
	return ""
}
