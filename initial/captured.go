package initial

// Captured is the state in which a program reached a block, with the memory that one execution of the
// block touches there.
type Captured struct {
	State          // registers; Fill is for pages that are not among Pages
	Address uint64 // of the block in its program
	X87     X87    // as FXSAVE has it (SDM vol. 1, 10.5.1)
	Pages   []Page // by ascending address, none twice
}

// X87 is the state of the x87 unit.
type X87 struct {
	Control, Status uint16
	Tags            uint8       // a bit for each physical register that is not empty
	Registers       [8][10]byte // st0 to st7
}

// Page is a page of a program's memory at the moment of a capture.
type Page struct {
	Address  uint64 // of its first byte
	Writable bool
	Data     [4096]byte
}
