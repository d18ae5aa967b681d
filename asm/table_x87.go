package asm

// Intel SDM vol. 2 appendix A.5.2, tables A-7 to A-22 (escape opcodes d8 to df), and the undocumented aliases of AMD
// APM vol. 3 appendix A that every processor executes.
const tableX87 = `
d8/0,d9/0,da/0 fadd|fmul|fcom|fcomp|fsub|fsubr|fdiv|fdivr,fld,fiadd|fimul|ficom|ficomp|fisub|fisubr|fidiv|fidivr -Md
d8/0,da/0 fadd|fmul|_|_|fsub|fsubr|fdiv|fdivr,fcmovb|fcmove|fcmovbe|fcmovu -st,sti
d9/2 fst|fstp Md
d9/4 fldenv -Menv
d9/5,de/0,df/0 fldcw,fiadd|fimul|ficom|ficomp|fisub|fisubr|fidiv|fidivr,fild -Mw
d9/6 fnstenv Menv
d9/7,df/1 fnstcw,fisttp|fist|fistp Mw
d8/2,d9/0,d9/1 fcom|fcomp,fld,fxch -sti
d9=d0,da=e9 fnop,fucompp -
d9/3 fstp -sti
d9=e0,d9=e8 fchs|fabs|_|_|ftst|fxam,fld1|fldl2t|fldl2e|fldpi|fldlg2|fldln2|fldz -
d9=f0 f2xm1|fyl2x|fptan|fpatan|fxtract|fprem1|fdecstp|fincstp -
db/0 fild -Md
db/1 fisttp|fist|fistp Md
db/5,df/4 fld,fbld -Mt
db/7 fstp Mt
db/0 fcmovnb|fcmovne|fcmovnbe|fcmovnu -st,sti
d9=f8,db=e0 fprem|fyl2xp1|fsqrt|fsincos|frndint|fscale|fsin|fcos,fneni|fndisi|fnclex|fninit|fnsetpm|frstpm -
dc/0,dd/0,df/5 fadd|fmul|fcom|fcomp|fsub|fsubr|fdiv|fdivr,fld,fild -Mq
dc/0,de/0 fadd|fmul,faddp|fmulp -sti,st
dc/2,de/2 fcom|fcomp,fcomp -sti
dd/1 fisttp|fst|fstp Mq
dd/4 frstor -Mfpu
dd/6 fnsave Mfpu
dd/7 fnstsw Mw
de=d9 fcompp -
dc/4,de/4 fsubr|fsub|fdivr|fdiv,fsubrp|fsubp|fdivrp|fdivp -sti,st
df/6 fbstp Mt
df/7 fistp Mq
dd/0,df/0 ffree|fxch|fst|fstp|fucom|fucomp,ffreep|fxch|fstp|fstp -sti
df=e0 fnstsw ax
db/5,df/5 fucomi|fcomi,fucomip|fcomip -st,sti
`
