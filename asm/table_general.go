package asm

// Intel SDM vol. 2 appendix A, tables A-2 and A-6 (one-byte opcodes). See spec.go for the notation; x87 is in
// table_x87.go.
const tableOneByte = `
00:8 add|or|adc|sbb|and|sub|xor +Eb,Gb
01:8 add|or|adc|sbb|and|sub|xor +Ev,Gv
02:8 add|or|adc|sbb|and|sub|xor +Gb,Eb
03:8 add|or|adc|sbb|and|sub|xor +Gv,Ev
04:8 add|or|adc|sbb|and|sub|xor +Ab,Ib
05:8 add|or|adc|sbb|and|sub|xor +Av,Isz
38,84 cmp,test -Eb,Gb
39,85 cmp,test -Ev,Gv
3a cmp -Gb,Eb
3b cmp -Gv,Ev
3c,a8 cmp,test -Ab,Ib
3d,a9 cmp,test -Av,Isz
50+ push -Zu push
58+ pop Zu pop
63 movsxd Gv,Ez
68 push -Isz push
69 imul Gv,Ev,Isz
6a push -Is push
6b imul Gv,Ev,Is
6c ins Yb,dx !io
6d ins Yz,dx !io
6e outs -dx,Xb !io
6f outs -dx,Xz !io
70,eb jo|jno|jb|jae|je|jne|jbe|ja|js|jns|jp|jnp|jl|jge|jle|jg,jmp -Jb !leaves
80/0,c0/0 add|or|adc|sbb|and|sub|xor,rol|ror|rcl|rcr|shl|shr|shl|sar +Eb,Ib
80/7,f6/0,f6/1 cmp,test,test -Eb,Ib
81/0 add|or|adc|sbb|and|sub|xor +Ev,Isz
81/7,f7/0,f7/1 cmp,test,test -Ev,Isz
83/0 add|or|adc|sbb|and|sub|xor +Ev,Is
83/7 cmp -Ev,Is
86 xchg +Eb,+Gb
87 xchg +Ev,+Gv
88 mov Eb,Gb
89 mov Ev,Gv
8a mov Gb,Eb
8b mov Gv,Ev
8c mov Mw,Sw
8c mov Rv,Sw
8d lea Gv,M agen
8e mov Sw,Ew !segment
8f/0 pop Eu pop
90 f3 pause -
90 nop - norexb
90+ xchg +Zv,+Av
98,9f cbw/cwde/cdqe,lahf - +rax
99 cwd/cdq/cqo - <rax >rdx
9b fwait - x87
9c pushf - push
9d popf - pop
9e sahf - <rax
a0 mov Ab,Ob
a1 mov Av,Ov
a2 mov Ob,Ab
a3 mov Ov,Av
a4 movs Yb,Xb
a5 movs Yv,Xv
a6 cmps -Xb,Yb
a7 cmps -Xv,Yv
aa stos Yb,Ab
ab stos Yv,Av
ac lods Ab,Xb
ad lods Av,Xv
ae scas -Ab,Yb
af scas -Av,Yv
b0+ mov Zb,Ib
b8+ mov Zv,Iv
c1/0 rol|ror|rcl|rcr|shl|shr|shl|sar +Ev,Ib
c2 ret -Iw pop !leaves
c3 ret - pop !leaves
c6/0 mov Eb,Ib
c6=f8 xabort -Ib !tsx
c7/0 mov Ev,Isz
c7=f8 xbegin -Jz !tsx
c8 enter -Iw,Ib push +rbp +rsp !enter
c9 leave - leave >rbp >rsp
ca retf -Iw +rsp !leaves
cb,cf retf,iret - +rsp !leaves
cc,f1 int3,int1 - !trap
cd int -Ib !kernel
d0/0 rol|ror|rcl|rcr|shl|shr|shl|sar +Eb,1
d1/0 rol|ror|rcl|rcr|shl|shr|shl|sar +Ev,1
d2/0 rol|ror|rcl|rcr|shl|shr|shl|sar +Eb,cl
d3/0 rol|ror|rcl|rcr|shl|shr|shl|sar +Ev,cl
d7 xlat - xlat +rax <rbx
e0 loopne|loope|loop -Jb +rcx !leaves
e3 jrcxz -Jb <rcx !leaves
e4 in Ab,Ib !io
e5 in Az,Ib !io
e6 out -Ib,Ab !io
e7 out -Ib,Az !io
e8 call -Jz push !leaves
e9 jmp -Jz !leaves
ec in Ab,dx !io
ed in Az,dx !io
ee out -dx,Ab !io
ef out -dx,Az !io
f4 hlt - !ring0
f5,f8 cmc,clc|stc|cli!ring0|sti!ring0|cld|std -
f6/2,fe/0 not|neg,inc|dec +Eb
f6/4 mul|imul|div|idiv -Eb +rax
f7/2,ff/0 not|neg,inc|dec +Ev
f7/4 mul|imul -Ev +rax >rdx
f7/6 div|idiv -Ev +rax +rdx
ff/2 call -Eq push !leaves
ff/3 call -Mp +rsp !leaves
ff/4 jmp -Eq !leaves
ff/5 jmp -Mp !leaves
ff/6 push -Eu push
`

// Intel SDM vol. 2 appendix A, tables A-3 and A-6 (0f xx), without the vector instructions; AMD APM vol. 3 appendix A
// for AMD's own.
const table0F = `
00/0 sldt|str Rv !umip
00/0 sldt|str Mw !umip
00/6 f2 lkgs -Ew !ring0
00/2 lldt!ring0|ltr!ring0|verr!host|verw!host -Ew
01/0 sgdt|sidt M10 !umip
01/2 lgdt|lidt -M10 !ring0
01/4 smsw Rv !umip
01/4 smsw Mw !umip
01/5 f3 rstorssp +Mq !cet
01/6 lmsw -Ew !ring0
01/7 invlpg -Mb agen !ring0
01=c1 vmcall - !vmx
01=c0 np enclv!ring0|_|vmlaunch!vmx|vmresume!vmx|vmxoff!vmx|pconfig!ring0|wrmsrns!ring0 -
01=c8 np monitor|mwait|clac|stac|_|_|_|encls - !ring0
01=ca f2 erets - !ring0
09,01=ca f3 wbnoinvd,eretu - !ring0
01=d0 np xgetbv - <rcx >rax >rdx !host
01=d1 np xsetbv!ring0|_|_|vmfunc!vmx|xend!tsx|xtest!tsx|enclu!sgx -
01=d9 f3 vmgexit - !vmx
01=d9 vmmcall - !vmx
01=d8,01=e8 np vmrun!vmx|_|vmload!vmx|vmsave!vmx|stgi!vmx|clgi!vmx|skinit!vmx|invlpga!ring0,serialize -
01=e8 f3 setssbsy - !ring0
01=e8 f2 xsusldtrk|xresldtrk - !tsx
01=ea f3 saveprevssp - !cet
01=ec,1e=fa f3 uiret!leaves|testui!uintr|clui!uintr|stui!uintr,endbr64|endbr32 -
01=ee np rdpkru - <rcx >rax >rdx !host
01=ef np wrpkru - <rax <rcx <rdx !pku
06,aa,01=f8 clts|sysret|invd|wbinvd,rsm,swapgs - !ring0
01=f9 rdtscp - >rax >rcx >rdx !time
01=fa np monitorx - !wait
01=fa f3 mcommit - !mcommit
01=fb np mwaitx - !wait
01=fc np clzero - <rax !nocache
01=fd f3 rmpquery - !ring0
01=fd np rdpru - <rcx >rax >rdx !time
01=fe np invlpgb|tlbsync - !ring0
01=fe f3 rmpadjust|psmash - !ring0
01=fe f2 rmpupdate|pvalidate - !ring0
02 lar|lsl +Gv,Ew !host
05 syscall - >rcx >r11 !kernel
0b ud2 - !trap
0d/0 prefetch|prefetchw|prefetchwt1|prefetch|prefetch|prefetch|prefetch|prefetch -Mb agen cachectl
0e femms - mmx x87
18/0 prefetchnta|prefetcht0|prefetcht1|prefetcht2 -Mb agen cachectl
1a np bndldx bnd,M agen !mpx
1a 66 bndmov bnd,M16 !mpx
1a 66 bndmov bnd,bndm !mpx
1a f3 bndcl -bnd,Eq agen !mpx
1a f2 bndcu -bnd,Eq agen !mpx
1b np bndstx -M,bnd agen !mpx
1b 66 bndmov M16,bnd !mpx
1b 66 bndmov bndm,bnd !mpx
1b f3 bndmk bnd,M agen !mpx
1b f2 bndcn -bnd,Eq agen !mpx
1c/0 np cldemote -Mb agen cachectl
1e/1 f3 S rdsspd~rdsspq Ry !cet
0d,19,18/0 nop,nop|nop|nop|nop|nop|nop|nop,nop|nop|nop|nop|nop|nop|nop|nop -Ev agen
20 mov Rq,Cq !ring0
21 mov Rq,Dq !ring0
22 mov Cq,Rq !ring0
23 mov Dq,Rq !ring0
30 wrmsr!ring0|_|rdmsr!ring0|_|sysenter!kernel|sysexit!ring0|_|getsec!vmx -
31 rdtsc - >rax >rdx !time
33 rdpmc - <rcx >rax >rdx !time
40 cmovo|cmovno|cmovb|cmovae|cmove|cmovne|cmovbe|cmova|cmovs|cmovns|cmovp|cmovnp|cmovl|cmovge|cmovle|cmovg +Gv,Ev
77 np emms - mmx x87
78 np vmread Eq,Gq !vmx
79 np vmwrite -Gq,Eq !vmx
80 jo|jno|jb|jae|je|jne|jbe|ja|js|jns|jp|jnp|jl|jge|jle|jg -Jz !leaves
90 seto|setno|setb|setae|sete|setne|setbe|seta|sets|setns|setp|setnp|setl|setge|setle|setg Eb
a0 push -fs push
a1 pop fs pop !segment
a2 cpuid - +rax >rbx +rcx >rdx !host
a3 bt -Ev,Gv
a4,ac shld,shrd +Ev,Gv,Ib
a5,ad shld,shrd +Ev,Gv,cl
a8 push -gs push
a9 pop gs pop !segment
ab,b3,bb bts,btr,btc +Ev,Gv
ae/0 np S fxsave~fxsave64 M512 a16 x87 vec <xmms
ae/1 np S fxrstor~fxrstor64 -M512 a16 x87 vec >xmms
ae/4 np S xsave~xsave64|xrstor~xrstor64|xsaveopt~xsaveopt64 +M576 a64 x87 vec !xsave
ae/2 np S,V.0 ldmxcsr -Md vec
ae/3 np S,V.0 stmxcsr Md vec
ae/7 np clflush -Mb cachectl
ae/6 66 clwb|clflushopt -Mb cachectl
ae/0 f3 rdfsbase|rdgsbase Ry
ae/2 f3 wrfsbase|wrgsbase -Ry !segment
ae/4 f3 ptwrite -Ey
ae/5 f3 S incsspd~incsspq -Ry !cet
ae/6 f3 clrssbsy +Mq !ring0
ae/6 f3 umonitor -Rq !wait
ae/6 f2 umwait -Ry !wait
ae/6 66 tpause -Ry !wait
ae=e8 np lfence|lfence|lfence|lfence|lfence|lfence|lfence|lfence -
ae=f0 np mfence|mfence|mfence|mfence|mfence|mfence|mfence|mfence -
ae=f8 np sfence|sfence|sfence|sfence|sfence|sfence|sfence|sfence -
b0 cmpxchg +Eb,Gb +rax
b1 cmpxchg +Ev,Gv +rax
b2,b4 lss,lfs|lgs Gv,Mp !segment
b6,be movzx,movsx Gv,Eb
b7,bf movzx,movsx Gv,Ew
b8,bc f3 popcnt,tzcnt|lzcnt Gv,Ev
b9,ff ud1,ud0 -Gv,Ev !trap
ba/4 bt -Ev,Ib
ba/5 bts|btr|btc +Ev,Ib
af,bc imul,bsf|bsr +Gv,Ev
c0 xadd +Eb,+Gb
c1 xadd +Ev,+Gv
c3 np movnti My,Gy cachectl
c7/1 S0 cmpxchg8b +Mq +rax +rdx <rbx <rcx
c7/1 S1 cmpxchg16b +M16 a16 +rax +rdx <rbx <rcx
c7/3 np S xrstors~xrstors64!ring0|xsavec~xsavec64!xsave|xsaves~xsaves64!ring0 +M576 a64 x87 vec
c7/6 f3 senduipi -Rq !uintr
c7/6 nf rdrand|rdseed Rv !time
c7/6 np vmptrld -Mq !vmx
c7/6 66 vmclear Mq !vmx
c7/6 f3 vmxon -Mq !vmx
c7/7 np vmptrst Mq !vmx
c7/7 f3 rdpid Rq !host
c8+ bswap +Zv
`

// Intel SDM vol. 2 appendix A, table A-4 (0f 38 xx), general registers only.
const table0F38 = `
80 66 invept!vmx|invvpid!vmx|invpcid!ring0 -Gq,M16
f0 nf movbe Gv,Mv
f1 nf movbe Mv,Gv
f0 f2 crc32 +Gy,Eb
f1 f2 crc32 +Gy,Ev
f2 np V.0 andn Gy,By,Ey
f3/1 np V.0 blsr|blsmsk|blsi By,Ey
f5,f7 np V.0 bzhi,bextr Gy,Ey,By
f5 f3 V.0 pext Gy,By,Ey
f5 f2 V.0 pdep Gy,By,Ey
f5 66 S0 wrussd Md,Gd !ring0
f5 66 S1 wrussq Mq,Gq !ring0
f6 np S0 wrssd Md,Gd !cet
f6 np S1 wrssq Mq,Gq !cet
f6 66 adcx +Gy,Ey
f6 f3 adox +Gy,Ey
f6 f2 V.0 mulx Gy,>By,Ey <rdx
f7 66 V.0 shlx Gy,Ey,By
f7 f3 V.0 sarx Gy,Ey,By
f7 f2 V.0 shrx Gy,Ey,By
d8/0 f3 aesencwide128kl|aesdecwide128kl -M48 vec !keylocker
d8/2 f3 aesencwide256kl|aesdecwide256kl -M64 vec !keylocker
dc f3 aesenc128kl|aesdec128kl +Vx,M48 !keylocker
dc f3 loadiwkey -Vx,Ux !keylocker
de f3 aesenc256kl|aesdec256kl +Vx,M64 !keylocker
fa f3 encodekey128|encodekey256 Gd,Rd vec !keylocker
f8 66 movdir64b -Gq,M64 movdir cachectl !nocache
f8 f2 enqcmd -Gq,M64 movdir !nocache
f8 f3 enqcmds -Gq,M64 movdir !ring0
f9 np movdiri My,Gy cachectl
fc np aadd +My,Gy
fc 66 aand +My,Gy
fc f3 axor +My,Gy
fc f2 aor +My,Gy
e0 66 V.0 cmpoxadd|cmpnoxadd|cmpbxadd|cmpnbxadd|cmpzxadd|cmpnzxadd|cmpbexadd|cmpnbexadd +My,+Gy,By
e8 66 V.0 cmpsxadd|cmpnsxadd|cmppxadd|cmpnpxadd|cmplxadd|cmpnlxadd|cmplexadd|cmpnlexadd +My,+Gy,By
`

// Intel SDM vol. 2 appendix A, table A-5 (0f 3a xx), general registers only.
const table0F3A = `
f0 f2 V.0 rorx Gy,Ey,Ib
f0=c0 f3 hreset -Ib !ring0
`
