package extract

import "encoding/binary"

type span struct{ lo, hi uint64 }

// Pointer encodings of frame descriptions (LSB Core 5.0, 10.5.1 "DWARF Exception Header Encoding"): the low four
// bits hold the format, the next three the base of the value.
const (
	encodeAbsolute = 0x00
	encodeU4       = 0x03
	encodeU8       = 0x04
	encodeS4       = 0x0b
	encodeS8       = 0x0c
	encodePCRel    = 0x10
	encodeIndirect = 0x80
	encodeOmit     = 0xff
)

// frameSpans lists the code ranges described by an .eh_frame section that starts at addr (LSB Core 5.0, 10.6). At
// damage the list ends and whole is false.
func frameSpans(data []byte, addr uint64) (spans []span, whole bool) {
	commons := map[int]common{} // by offset
	r := frameReader{data: data, addr: addr}
	for r.pos < len(data) {
		start := r.pos
		length := r.unsigned(4)
		idSize := 4
		if length == 0xffffffff {
			length, idSize = r.unsigned(8), 8
		}
		if length == 0 { // end marker, from crtend.o; in a .o entries may follow
			if r.bad {
				return spans, false
			}
			continue
		}
		body := r.pos
		if r.bad || length < uint64(idSize) || length > uint64(len(data)-body) {
			return spans, false
		}
		end := body + int(length)
		id := r.unsigned(idSize)
		entry := frameReader{data: data[:end], pos: r.pos, addr: addr}
		if id == 0 {
			commons[start] = entry.common()
		} else if c, ok := commons[body-int(min(id, uint64(body)))]; ok {
			lo, ok := entry.pointer(c.encoding)
			size, sized := entry.pointer(c.encoding & 0x0f)
			hi := lo + size
			if c.signal { // such a range starts a byte early, for unwinders that use pc - 1
				lo++
			}
			if ok && sized && lo < hi {
				spans = append(spans, span{lo, hi})
			}
		}
		r.pos = end
	}
	return spans, true
}

// frameReader reads fields of a section. Reading past the end sets bad.
type frameReader struct {
	data []byte
	pos  int
	addr uint64 // address of data[0]
	bad  bool
}

func (r *frameReader) unsigned(size int) uint64 {
	if r.bad || len(r.data)-r.pos < size {
		r.bad = true
		return 0
	}
	var word [8]byte
	copy(word[:], r.data[r.pos:r.pos+size])
	r.pos += size
	return binary.LittleEndian.Uint64(word[:])
}

func (r *frameReader) skipLEB() {
	for r.unsigned(1)&0x80 != 0 {
	}
}

// A common entry is shared by frame descriptions.
type common struct {
	encoding byte // of addresses; encodeOmit: unreadable
	signal   bool // a signal trampoline of the kernel
}

// common reads a common entry's augmentation; its R gives the encoding of addresses.
func (r *frameReader) common() common {
	unknown := common{encoding: encodeOmit}
	version := r.unsigned(1)
	start := r.pos
	for r.unsigned(1) != 0 {
	}
	if r.bad {
		return unknown
	}
	augmentation := string(r.data[start : r.pos-1])
	r.skipLEB() // code alignment
	r.skipLEB() // data alignment
	if version == 1 {
		r.unsigned(1) // return address register
	} else {
		r.skipLEB()
	}
	if augmentation == "" || r.bad {
		return common{encoding: encodeAbsolute}
	}
	if augmentation[0] != 'z' {
		return unknown
	}
	r.skipLEB() // length of the augmentation
	c := common{encoding: encodeAbsolute}
	for _, letter := range augmentation[1:] {
		switch letter {
		case 'R':
			c.encoding = byte(r.unsigned(1))
		case 'P':
			if _, ok := r.pointer(byte(r.unsigned(1)) &^ encodeIndirect); !ok {
				return unknown
			}
		case 'L':
			r.unsigned(1)
		case 'S':
			c.signal = true
		case 'B':
		default:
			return unknown
		}
	}
	return c
}

func (r *frameReader) pointer(encoding byte) (v uint64, ok bool) {
	if encoding == encodeOmit || encoding&encodeIndirect != 0 {
		return 0, false
	}
	base := uint64(0)
	switch encoding & 0x70 {
	case 0:
	case encodePCRel:
		base = r.addr + uint64(r.pos)
	default: // relative to a section or function: not used on x86-64
		return 0, false
	}
	switch encoding & 0x0f {
	case encodeAbsolute, encodeU8, encodeS8:
		v = r.unsigned(8)
	case encodeU4:
		v = r.unsigned(4)
	case encodeS4:
		v = uint64(int64(int32(r.unsigned(4))))
	default:
		return 0, false
	}
	return base + v, !r.bad
}
