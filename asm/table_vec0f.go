package asm

// Vector instructions of map 0f: Intel SDM vol. 2 appendix A, table A-3, and the instruction pages for EVEX
// (broadcast, rounding, W and L). See spec.go for the notation.
const tableVector0F = `
10 np S,V,E0 movups Vx,Wx unaligned
10 66 S,V,E1 movupd Vx,Wx unaligned
10 f3 S,V,E0 movss Vd,Md
10 f3 S,V,E0 movss Vd,Hd,Ud
10 f2 S,V,E1 movsd Vq,Mq
10 f2 S,V,E1 movsd Vq,Hq,Uq
11 np S,V,E0 movups Wx,Vx unaligned
11 66 S,V,E1 movupd Wx,Vx unaligned
11 f3 S,V,E0 movss Md,Vd
11 f3 S,V,E0 movss Ud,Hd,Vd
11 f2 S,V,E1 movsd Mq,Vq
11 f2 S,V,E1 movsd Uq,Hq,Vq
12,16 np S,V.0,E0.0 movlps,movhps Vq,Hq,Mq nomask
12,16 np S,V.0,E0.0 movhlps,movlhps Vq,Hq,Uq nomask
12,16 66 S,V.0,E1.0 movlpd,movhpd Vq,Hq,Mq nomask
12,16 f3 S,V,E0 movsldup,movshdup Vx,Wx
12 f2 S,V.0,E1.0 movddup Vx,Wq
12 f2 V.1,E1.12 vmovddup Vx,Wx
13,17 np S,V.0,E0.0 movlps,movhps Mq,Vq nomask
13,17 66 S,V.0,E1.0 movlpd,movhpd Mq,Vq nomask
14,54 np S,V,E0 unpcklps|unpckhps,andps|andnps|orps|xorps Vx,Hx,Wx b4
14,54,6c 66 S,V,E1 unpcklpd|unpckhpd,andpd|andnpd|orpd|xorpd,punpcklqdq|punpckhqdq Vx,Hx,Wx b8
28 np S,V,E0 movaps Vx,Wx aligned
28 66 S,V,E1 movapd Vx,Wx aligned
29 np S,V,E0 movaps Wx,Vx aligned
29 66 S,V,E1 movapd Wx,Vx aligned
2a np cvtpi2ps +Vq,Qq fp
2a 66 cvtpi2pd Vx,Qq
2a f3 S,V,E cvtsi2ss Vd,Hd,Ey fp er nomask
2a f2 S,V,E0 cvtsi2sd Vq,Hq,Ey fp bignored nomask
2b np S,V,E0 movntps Mx,Vx aligned nomask cachectl
2b 66 S,V,E1 movntpd Mx,Vx aligned nomask cachectl
2b f3 movntss Md,Vd cachectl
2b f2 movntsd Mq,Vq cachectl
2c np cvttps2pi|cvtps2pi Pq,Wq fp
2c 66 cvttpd2pi|cvtpd2pi Pq,W16 fp
2c f3 S,V,E cvttss2si Gy,Wd fp sae nomask
2c f2 S,V,E cvttsd2si Gy,Wq fp sae nomask
2d f3 S,V,E cvtss2si Gy,Wd fp er nomask
2d f2 S,V,E cvtsd2si Gy,Wq fp er nomask
2e np S,V,E0 ucomiss|comiss -Vd,Wd fp sae nomask
2e 66 S,V,E1 ucomisd|comisd -Vq,Wq fp sae nomask
41,45,4a np V.1 kandw~kandq|kandnw~kandnq,korw~korq|kxnorw~kxnorq|kxorw~kxorq,kaddw~kaddq|kunpckwd~kunpckdq kg,kh,ku
41,45 66 V.1 kandb~kandd|kandnb~kandnd,korb~kord|kxnorb~kxnord|kxorb~kxord kg,kh,ku
44 np V.0 knotw~knotq kg,ku
44 66 V.0 knotb~knotd kg,ku
4a 66 V0.1 kaddb|kunpckbw kg,kh,ku
4a 66 V1.1 kaddd kg,kh,ku
50 np S,V movmskps Gy,Ux
51,5b np S,V,E0 sqrtps,cvtdq2ps Vx,Wx fp b4 er
51 66 S,V,E1 sqrtpd Vx,Wx fp b8 er
51 f3 S,V,E0 sqrtss Vd,Hd,Wd fp er
52 np S,V rsqrtps|rcpps Vx,Wx
52 f3 S,V rsqrtss|rcpss Vd,Hd,Wd
58,5c,5e np S,V,E0 addps|mulps,subps,divps Vx,Hx,Wx fp b4 er
58,5c,5e 66 S,V,E1 addpd|mulpd,subpd,divpd Vx,Hx,Wx fp b8 er
58,5c,5e f3 S,V,E0 addss|mulss,subss,divss Vd,Hd,Wd fp er
51,58,5c,5e f2 S,V,E1 sqrtsd,addsd|mulsd,subsd,divsd Vq,Hq,Wq fp er
5a np S,V,E0 cvtps2pd Vx,Wh fp b4 sae
5a 66 S,V,E1 cvtpd2ps Vh,Wx fp b8 er
5a f3 S,V,E0 cvtss2sd Vq,Hq,Wd fp sae
5a f2 S,V,E1 cvtsd2ss Vd,Hd,Wq fp er
5b np E1 vcvtqq2ps Vh,Wx fp b8 er
5b 66 S,V,E0 cvtps2dq Vx,Wx fp b4 er
5b f3 S,V,E0 cvttps2dq Vx,Wx fp b4 sae
5d np S,V,E0 minps|_|maxps Vx,Hx,Wx fp b4 sae
5d 66 S,V,E1 minpd|_|maxpd Vx,Hx,Wx fp b8 sae
5d f3 S,V,E0 minss|_|maxss Vd,Hd,Wd fp sae
5d f2 S,V,E1 minsd|_|maxsd Vq,Hq,Wq fp sae
60 np punpcklbw|punpcklwd|punpckldq +Pq,Qd
60 66 S,V,E punpcklbw|punpcklwd Vx,Hx,Wx
62 66 S,V,E0 punpckldq Vx,Hx,Wx b4
63,67,d5,d8,e0 66 N,S,V,E packsswb,packuswb|punpckhbw|punpckhwd,pmullw,psubusb|psubusw|pminub,pavgb Vx,Hx,Wx
64,74,db,df,eb,ef 66 N,S,V pcmpgtb|pcmpgtw|pcmpgtd,pcmpeqb|pcmpeqw|pcmpeqd,pand,pandn,por,pxor Vx,Hx,Wx
64,74 66 E vpcmpgtb|vpcmpgtw,vpcmpeqb|vpcmpeqw kg,Hx,Wx
66,76 66 E0 vpcmpgtd,vpcmpeqd kg,Hx,Wx b4
6a,fa,fe 66 N,S,V,E0 punpckhdq|packssdw,psubd,paddd Vx,Hx,Wx b4
6e np S movd~movq Pq,Ey
6e 66 S,V.0,E.0 movd~movq Vy,Ey nomask
6f np movq Pq,Qq
6f 66 S,V movdqa Vx,Wx aligned
6f 66 E vmovdqa32~vmovdqa64 Vx,Wx aligned
6f f3 S,V movdqu Vx,Wx unaligned
6f f3 E vmovdqu32~vmovdqu64 Vx,Wx
6f f2 E vmovdqu8~vmovdqu16 Vx,Wx
70 np pshufw Pq,Qq,Ib
70 66 S,V,E0 pshufd Vx,Wx,Ib b4
70 f3 S,V,E pshufhw Vx,Wx,Ib
70 f2 S,V,E pshuflw Vx,Wx,Ib
71/2,73/2 66 N,S,V psrlw|_|psraw|_|psllw,psrlq|_|_|_|psllq Hx,Ux,Ib
71/2 66 E vpsrlw|_|vpsraw|_|vpsllw Hx,Wx,Ib
72/0 66 E vprord~vprorq|vprold~vprolq Hx,Wx,Ib bw
72/2 66 N,S,V psrld|_|psrad|_|pslld Hx,Ux,Ib
72/2 66 E0 vpsrld|_|vpsrad|_|vpslld Hx,Wx,Ib b4
72/4,73/2 66 E1 vpsraq,vpsrlq|_|_|_|vpsllq Hx,Wx,Ib b8
73/3 66 S,V psrldq|_|_|_|pslldq Hx,Ux,Ib
73/3 66 E vpsrldq|_|_|_|vpslldq Hx,Wx,Ib nomask
77 np V.0 vzeroupper - vec
77 np V.1 vzeroall - vec >xmms
78/0 66 extrq +Uq,Ib,Ib
78 f2 insertq +V16,U16,Ib,Ib
78 np E0 vcvttps2udq|vcvtps2udq Vx,Wx fp b4 er
78 np E1 vcvttpd2udq|vcvtpd2udq Vh,Wx fp b8 er
78 66 E0 vcvttps2uqq|vcvtps2uqq|vcvttps2qq|vcvtps2qq Vx,Wh fp b4 er
78 66 E1 vcvttpd2uqq|vcvtpd2uqq|vcvttpd2qq|vcvtpd2qq Vx,Wx fp b8 er
78 f3 E vcvttss2usi|vcvtss2usi Gy,Wd fp er nomask
78 f2 E vcvttsd2usi|vcvtsd2usi Gy,Wq fp er nomask
79 66 extrq +V16,U16
79 f2 insertq +V16,U16
7a f3 E0 vcvtudq2pd Vx,Wh b4 bignored
7a f3 E1 vcvtuqq2pd Vx,Wx fp b8 er
7a f2 E0 vcvtudq2ps Vx,Wx fp b4 er
7a f2 E1 vcvtuqq2ps Vh,Wx fp b8 er
7b f3 E vcvtusi2ss Vd,Hd,Ey fp er nomask
7b f2 E0 vcvtusi2sd Vq,Hq,Ey fp bignored nomask
2a,7b f2 E1 vcvtsi2sd,vcvtusi2sd Vq,Hq,Ey fp er nomask
7c,d0 66 S,V haddpd|hsubpd,addsubpd Vx,Hx,Wx fp
7c,d0 f2 S,V haddps|hsubps,addsubps Vx,Hx,Wx fp
7e np S movd~movq Ey,Pq
7e 66 S,V.0,E.0 movd~movq Ey,Vy nomask
7e f3 S,V.0,E1.0 movq Vq,Wq nomask
7f np movq Qq,Pq
7f 66 S,V movdqa Wx,Vx aligned
7f 66 E vmovdqa32~vmovdqa64 Wx,Vx aligned
7f f3 S,V movdqu Wx,Vx unaligned
7f f3 E vmovdqu32~vmovdqu64 Wx,Vx
7f f2 E vmovdqu8~vmovdqu16 Wx,Vx
90 np V0.0 kmovw kg,kew
90 np V1.0 kmovq kg,keq
90 66 V0.0 kmovb kg,keb
90 66 V1.0 kmovd kg,ked
91 np V0.0 kmovw Mw,kg
91 np V1.0 kmovq Mq,kg
91 66 V0.0 kmovb Mb,kg
91 66 V1.0 kmovd Md,kg
92 np V0.0 kmovw kg,Rd
92 66 V0.0 kmovb kg,Rd
92 f2 V.0 kmovd~kmovq kg,Ry
93 np V0.0 kmovw Gd,ku
93 66 V0.0 kmovb Gd,ku
93 f2 V.0 kmovd~kmovq Gy,ku
98 np V.0 kortestw~kortestq|ktestw~ktestq -kg,ku
98 66 V.0 kortestb~kortestd|ktestb~ktestd -kg,ku
c2 np S,V cmpps Vx,Hx,Wx,Ib fp
c2 66 S,V cmppd Vx,Hx,Wx,Ib fp
c2 f3 S,V cmpss Vd,Hd,Wd,Ib fp
c2 f2 S,V cmpsd Vq,Hq,Wq,Ib fp
c2 np E0 vcmpps kg,Hx,Wx,Ib fp b4 sae
c2 66 E1 vcmppd kg,Hx,Wx,Ib fp b8 sae
c2 f3 E0 vcmpss kg,Hd,Wd,Ib fp sae
c2 f2 E1 vcmpsd kg,Hq,Wq,Ib fp sae
c4 np pinsrw +Pq,Mw,Ib
c4 np pinsrw +Pq,Rd,Ib
c4 66 S,V.0,E.0 pinsrw V16,H16,Mw,Ib nomask
c4 66 S,V.0,E.0 pinsrw V16,H16,Rd,Ib nomask
c5 np pextrw Gd,Nq,Ib
c5 66 S,V.0,E.0 pextrw Gd,U16,Ib nomask
c6 np S,V,E0 shufps Vx,Hx,Wx,Ib b4
c6 66 S,V,E1 shufpd Vx,Hx,Wx,Ib b8
d1,e1,f1 66 N,S,V,E psrlw,psraw,psllw Vx,Hx,W16
d2,e2,f2 66 N,S,V,E0 psrld,psrad,pslld Vx,Hx,W16
d3,f3 66 N,S,V,E1 psrlq,psllq Vx,Hx,W16
d4,f4,fb 66 N,S,V,E1 paddq,pmuludq,psubq Vx,Hx,Wx b8
d6 66 S,V.0,E1.0 movq Wq,Vq nomask
d6 f3 movq2dq V16,Nq
d6 f2 movdq2q Pq,U16
d7 np pmovmskb Gy,Nq
50,d7 66 S,V movmskpd,pmovmskb Gy,Ux
db,df,eb,ef 66 E vpandd~vpandq,vpandnd~vpandnq,vpord~vporq,vpxord~vpxorq Vx,Hx,Wx bw
dc,e3,e8,ec 66 N,S,V,E paddusb|paddusw|pmaxub,pavgw|pmulhuw|pmulhw,psubsb|psubsw|pminsw,paddsb|paddsw|pmaxsw Vx,Hx,Wx
e2 66 E1 vpsraq Vx,Hx,W16
e6 66 S,V,E1 cvttpd2dq Vh,Wx fp b8 sae
e6 f3 S,V,E0 cvtdq2pd Vx,Wh b4 bignored
e6 f3 E1 vcvtqq2pd Vx,Wx fp b8 er
e6 f2 S,V,E1 cvtpd2dq Vh,Wx fp b8 er
e7 np movntq Mq,Pq cachectl
e7 66 S,V,E0 movntdq Mx,Vx aligned nomask cachectl
f0 f2 S,V lddqu Vx,Mx unaligned
f5,f8,fc 66 N,S,V,E pmaddwd,psubb|psubw,paddb|paddw Vx,Hx,Wx
f6 66 N,S,V,E psadbw Vx,Hx,Wx nomask
f7 np maskmovq -Pq,Nq maskmov cachectl
f7 66 S,V.0 maskmovdqu -V16,U16 maskmov cachectl
`
