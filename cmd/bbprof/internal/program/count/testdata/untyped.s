# plain: a function without a type.
.globl main
plain: mov $10,%ecx
1: dec %ecx
jnz 1b
ret
main: call plain
xor %eax,%eax
ret
.section .note.GNU-stack,"",@progbits
