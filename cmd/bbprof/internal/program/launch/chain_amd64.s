#include "textflag.h"

// func chain(iterations uint64)
TEXT ·chain(SB), NOSPLIT, $0-8
	MOVQ iterations+0(FP), CX
	MOVQ $1, AX
	PCALIGN $64
turn:
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	ADDQ AX, AX
	DECQ CX
	JNZ  turn
	RET
