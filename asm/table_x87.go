package asm

// Intel SDM vol. 2 appendix A.5.2, tables A-7 to A-22 (escape opcodes d8 to df), and the
// undocumented aliases of AMD APM vol. 3 appendix A that every processor executes.
const tableX87 = `
d8/0 fadd|fmul|fcom|fcomp|fsub|fsubr|fdiv|fdivr -Md
d8/0 fadd|fmul|_|_|fsub|fsubr|fdiv|fdivr -st,sti
d8/2 fcom|fcomp -sti
d9/0 fld -Md
d9/2 fst|fstp Md
d9/4 fldenv -Menv
d9/5 fldcw -Mw
d9/6 fnstenv Menv
d9/7 fnstcw Mw
d9/0 fld -sti
d9/1 fxch -sti
d9=d0 fnop -
d9/3 fstp -sti
d9=e0 fchs|fabs|_|_|ftst|fxam -
d9=e8 fld1|fldl2t|fldl2e|fldpi|fldlg2|fldln2|fldz -
d9=f0 f2xm1|fyl2x|fptan|fpatan|fxtract|fprem1|fdecstp|fincstp -
d9=f8 fprem|fyl2xp1|fsqrt|fsincos|frndint|fscale|fsin|fcos -
da/0 fiadd|fimul|ficom|ficomp|fisub|fisubr|fidiv|fidivr -Md
da/0 fcmovb|fcmove|fcmovbe|fcmovu -st,sti
da=e9 fucompp -
db/0 fild -Md
db/1 fisttp|fist|fistp Md
db/5 fld -Mt
db/7 fstp Mt
db/0 fcmovnb|fcmovne|fcmovnbe|fcmovnu -st,sti
db=e0 fneni|fndisi|fnclex|fninit|fnsetpm|frstpm -
db/5 fucomi|fcomi -st,sti
dc/0 fadd|fmul|fcom|fcomp|fsub|fsubr|fdiv|fdivr -Mq
dc/0 fadd|fmul -sti,st
dc/2 fcom|fcomp -sti
dc/4 fsubr|fsub|fdivr|fdiv -sti,st
dd/0 fld -Mq
dd/1 fisttp|fst|fstp Mq
dd/4 frstor -Mfpu
dd/6 fnsave Mfpu
dd/7 fnstsw Mw
dd/0 ffree|fxch|fst|fstp|fucom|fucomp -sti
de/0 fiadd|fimul|ficom|ficomp|fisub|fisubr|fidiv|fidivr -Mw
de/0 faddp|fmulp -sti,st
de/2 fcomp -sti
de=d9 fcompp -
de/4 fsubrp|fsubp|fdivrp|fdivp -sti,st
df/0 fild -Mw
df/1 fisttp|fist|fistp Mw
df/4 fbld -Mt
df/5 fild -Mq
df/6 fbstp Mt
df/7 fistp Mq
df/0 ffreep|fxch|fstp|fstp -sti
df=e0 fnstsw ax
df/5 fucomip|fcomip -st,sti
`
