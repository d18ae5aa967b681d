# The loop of "Measurement Bias from Address Aliasing" (Melhus and Jensen, 2016) as gcc -O0 writes
# it: a local variable, inc, is added to three statics, and a local variable counts the turns.
# Statics stay where they are; rbp moves with the stack, as the environment's size moves it.
#
#	bbprof sweep -data 0:8176:16 -regs rbp -hex - < statics.hex
#
# With path defined, the address of inc waits for the load of inc before, so that a late load is felt.
#
#	gcc -c -o k.o statics.s && objcopy -O binary -j .text k.o k.bin && xxd -p -c 999 k.bin > statics.hex
#	gcc -Wa,--defsym,path=1 -c -o k.o statics.s && … > statics-path.hex
	.intel_syntax noprefix
block:
	.irp static, i, j, k
	mov edx, dword ptr [rip + \static]
	mov eax, dword ptr [rbp - 4]		# inc
	.ifdef path
	mov ecx, eax
	and ecx, 0
	add rbp, rcx
	.endif
	add eax, edx
	mov dword ptr [rip + \static], eax
	.endr
	add dword ptr [rbp - 8], 1		# the turns
	# as in the paper, where they are at 0x60103c, 0x601040 and 0x601044
	.set i, block + 0x103c
	.set j, block + 0x1040
	.set k, block + 0x1044
