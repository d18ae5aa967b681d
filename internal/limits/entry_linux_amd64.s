#include "textflag.h"

// bbprof_entry is where the process starts if the linker was told so (-E bbprof_entry, as the Makefile
// does). It asks for the flags of descriptor 1, fcntl(1, F_GETFD), before Go's runtime opens /dev/null in the
// place of closed descriptors (runtime/fds_unix.go, checkfds). The kernel keeps all registers of a system call
// but rax, rcx and r11, of which the runtime's own entry needs none.
TEXT bbprof_entry(SB), NOSPLIT|NOFRAME, $0
	MOVL $72, AX // fcntl
	MOVL $1, DI
	MOVL $1, SI  // F_GETFD
	SYSCALL
	MOVQ AX, ·stdoutFlags(SB)
	JMP  _rt0_amd64_linux(SB)
