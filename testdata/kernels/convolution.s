# The inner loop of the convolution of "Measurement Bias from Address Aliasing" (Melhus and Jensen,
# 2016), one output for a kernel of five, as a compiler writes it that must assume that output and
# input overlap: each sum goes through memory. rsi is the input, rdi the output, rdx the kernel.
#
#	bbprof sweep -distance 0:8192:16 -regs rsi,rdi -set rdx=0x30000000 -hex - < convolution.hex
#
# With path defined, the address of each input waits for the input before, so that a late load is felt.
#
#	gcc -c -o k.o convolution.s && objcopy -O binary -j .text k.o k.bin && xxd -p -c 999 k.bin > convolution.hex
#	gcc -Wa,--defsym,path=1 -c -o k.o convolution.s && … > convolution-path.hex
	.intel_syntax noprefix
	mov dword ptr [rdi], 0
	.irp tap, 0, 4, 8, 12, 16
	movss xmm0, dword ptr [rsi + \tap]
	.ifdef path
	movd eax, xmm0
	and eax, 0
	add rsi, rax
	.endif
	mulss xmm0, dword ptr [rdx + \tap]
	addss xmm0, dword ptr [rdi]
	movss dword ptr [rdi], xmm0
	.endr
	add rsi, 4
	add rdi, 4
