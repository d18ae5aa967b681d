package batch

// index finds the row of a block that was measured before, by the block's hash. It holds nine
// bytes for each distinct block, of which tables that are two fifths to four fifths full make
// 11 to 22. A map would take twice that, and more while it grows.
type index struct {
	tables [indexTables]table // each grows by itself, so that never all are there twice
}

const indexTables = 256 // by the hash's first byte

// table is open addressing with linear probing.
type table struct {
	hashes  []uint32 // the hash's last four bytes
	offsets []byte   // five for each: 1 + where the row begins, 0 if there is none
	used    int
}

const (
	offsetBytes = 5 // files of up to a terabyte
	firstSize   = 64
)

func (x *index) add(hash uint64, at int64) {
	t := &x.tables[hash>>56]
	if 5*(t.used+1) > 4*len(t.hashes) {
		t.grow()
	}
	t.put(uint32(hash), uint64(at+1))
	t.used++
}

// each gives all rows that may be the block's, until f returns false: another block may have
// the same hash.
func (x *index) each(hash uint64, f func(at int64) bool) {
	t := &x.tables[hash>>56]
	if len(t.hashes) == 0 {
		return
	}
	mask := uint32(len(t.hashes) - 1)
	for i := uint32(hash) & mask; ; i = (i + 1) & mask {
		at := t.offset(i)
		if at == 0 || t.hashes[i] == uint32(hash) && !f(int64(at-1)) {
			return
		}
	}
}

func (t *table) offset(i uint32) (at uint64) {
	for k, b := range t.offsets[i*offsetBytes:][:offsetBytes] {
		at |= uint64(b) << (8 * k)
	}
	return at
}

func (t *table) put(hash uint32, at uint64) {
	mask := uint32(len(t.hashes) - 1)
	i := hash & mask
	for t.offset(i) != 0 {
		i = (i + 1) & mask
	}
	t.hashes[i] = hash
	for k := range offsetBytes {
		t.offsets[i*offsetBytes+uint32(k)] = byte(at >> (8 * k))
	}
}

func (t *table) grow() {
	old := *t
	size := max(2*len(old.hashes), firstSize)
	t.hashes, t.offsets = make([]uint32, size), make([]byte, size*offsetBytes)
	for i, hash := range old.hashes {
		if at := old.offset(uint32(i)); at != 0 {
			t.put(hash, at)
		}
	}
}
