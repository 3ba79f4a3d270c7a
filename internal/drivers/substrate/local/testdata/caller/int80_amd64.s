#include "textflag.h"

// func int80(number uintptr) int32: a call by the door of 32-bit programs.
TEXT ·int80(SB), NOSPLIT, $0-12
	MOVQ number+0(FP), AX
	BYTE $0xCD; BYTE $0x80
	MOVL AX, ret+8(FP)
	RET
