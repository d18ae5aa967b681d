# A block that goes through the stages of bbprof ablate: it touches a page of its own in each copy,
# there always another byte of the same lines, divides subnormals, and is so long that 200 copies
# exceed L1I, which ten do not.
#
#	bbprof ablate -hex - < stages.hex
#
#	gcc -c -o k.o stages.s && objcopy -O binary -j .text k.o k.bin && xxd -p -c 1999 k.bin > stages.hex
	.intel_syntax noprefix
	add byte ptr [rbx], cl
	.rept 5
	movsd xmm1, qword ptr [rsi]
	divsd xmm1, xmm0
	.endr
	.rept 80
	.byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0	# nop, 15 bytes
	.endr
	add rbx, 0x1001
