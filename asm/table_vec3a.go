package asm

// Vector instructions of map 0f 3a: Intel SDM vol. 2 appendix A, table A-5, and the
// instruction pages for EVEX.
const tableVector0F3A = `
00 66 V1.1,E1.12 vpermq Vx,Wx,Ib b8
01 66 V1.1,E1.12 vpermpd Vx,Wx,Ib b8
02 66 V0 vpblendd Vx,Hx,Wx,Ib
03 66 E0 valignd Vx,Hx,Wx,Ib b4
03 66 E1 valignq Vx,Hx,Wx,Ib b8
04 66 V0,E0 vpermilps Vx,Wx,Ib b4
05 66 V0,E1 vpermilpd Vx,Wx,Ib b8
06 66 V0.1 vperm2f128 Vx,Hx,Wx,Ib
08 66 S,V roundps Vx,Wx,Ib fp
08 66 E0 vrndscaleps Vx,Wx,Ib fp b4 sae
09 66 S,V roundpd Vx,Wx,Ib fp
09 66 E1 vrndscalepd Vx,Wx,Ib fp b8 sae
0a 66 S,V roundss Vd,Hd,Wd,Ib fp
0a 66 E0 vrndscaless Vd,Hd,Wd,Ib fp sae
0b 66 S,V roundsd Vq,Hq,Wq,Ib fp
0b 66 E1 vrndscalesd Vq,Hq,Wq,Ib fp sae
0c 66 S,V blendps|blendpd|pblendw Vx,Hx,Wx,Ib
0f 66 N,S,V,E palignr Vx,Hx,Wx,Ib
14 66 S,V.0,E.0 pextrb Mb,V16,Ib nomask
14 66 S,V.0,E.0 pextrb Rd,V16,Ib nomask
15 66 S,V.0,E.0 pextrw Mw,V16,Ib nomask
15 66 S,V.0,E.0 pextrw Rd,V16,Ib nomask
16 66 S0,V0.0,E0.0 pextrd Ed,V16,Ib nomask
16 66 S1,V1.0,E1.0 pextrq Eq,V16,Ib nomask
17 66 S,V.0,E.0 extractps Ed,V16,Ib nomask
18 66 V0.1 vinsertf128 Vx,Hx,W16,Ib
18 66 E0.12 vinsertf32x4 Vx,Hx,W16,Ib
18 66 E1.12 vinsertf64x2 Vx,Hx,W16,Ib
19 66 V0.1 vextractf128 W16,Vx,Ib
19 66 E0.12 vextractf32x4 W16,Vx,Ib
19 66 E1.12 vextractf64x2 W16,Vx,Ib
1a 66 E0.2 vinsertf32x8 Vx,Hx,W32,Ib
1a 66 E1.2 vinsertf64x4 Vx,Hx,W32,Ib
1b 66 E0.2 vextractf32x8 W32,Vx,Ib
1b 66 E1.2 vextractf64x4 W32,Vx,Ib
1d 66 V0,E0 vcvtps2ph Wh,Vx,Ib fp sae
1e 66 E0 vpcmpud|vpcmpd kg,Hx,Wx,Ib b4
1e 66 E1 vpcmpuq|vpcmpq kg,Hx,Wx,Ib b8
20 66 S,V.0,E.0 pinsrb V16,H16,Mb,Ib nomask
20 66 S,V.0,E.0 pinsrb V16,H16,Rd,Ib nomask
21 66 S,V.0,E0.0 insertps V16,H16,Wd,Ib nomask
22 66 S0,V0.0,E0.0 pinsrd V16,H16,Ed,Ib nomask
22 66 S1,V1.0,E1.0 pinsrq V16,H16,Eq,Ib nomask
23 66 E0.12 vshuff32x4 Vx,Hx,Wx,Ib b4
23 66 E1.12 vshuff64x2 Vx,Hx,Wx,Ib b8
25 66 E0 vpternlogd +Vx,Hx,Wx,Ib b4
25 66 E1 vpternlogq +Vx,Hx,Wx,Ib b8
26 66 E0 vgetmantps Vx,Wx,Ib fp b4 sae
26 66 E1 vgetmantpd Vx,Wx,Ib fp b8 sae
27 66 E0 vgetmantss Vd,Hd,Wd,Ib fp sae
27 66 E1 vgetmantsd Vq,Hq,Wq,Ib fp sae
30 66 V0.0 kshiftrb|kshiftrd kg,ku,Ib
30 66 V1.0 kshiftrw|kshiftrq kg,ku,Ib
32 66 V0.0 kshiftlb|kshiftld kg,ku,Ib
32 66 V1.0 kshiftlw|kshiftlq kg,ku,Ib
38 66 V0.1 vinserti128 Vx,Hx,W16,Ib
38 66 E0.12 vinserti32x4 Vx,Hx,W16,Ib
38 66 E1.12 vinserti64x2 Vx,Hx,W16,Ib
39 66 V0.1 vextracti128 W16,Vx,Ib
39 66 E0.12 vextracti32x4 W16,Vx,Ib
39 66 E1.12 vextracti64x2 W16,Vx,Ib
3a 66 E0.2 vinserti32x8 Vx,Hx,W32,Ib
3a 66 E1.2 vinserti64x4 Vx,Hx,W32,Ib
3b 66 E0.2 vextracti32x8 W32,Vx,Ib
3b 66 E1.2 vextracti64x4 W32,Vx,Ib
3e 66 E0 vpcmpub|vpcmpb kg,Hx,Wx,Ib
3e 66 E1 vpcmpuw|vpcmpw kg,Hx,Wx,Ib
40 66 S,V dpps Vx,Hx,Wx,Ib fp
41 66 S,V.0 dppd Vx,Hx,Wx,Ib fp
42 66 S,V mpsadbw Vx,Hx,Wx,Ib
42 66 E0 vdbpsadbw Vx,Hx,Wx,Ib
43 66 E0.12 vshufi32x4 Vx,Hx,Wx,Ib b4
43 66 E1.12 vshufi64x2 Vx,Hx,Wx,Ib b8
44 66 S,V,E pclmulqdq Vx,Hx,Wx,Ib nomask
46 66 V0.1 vperm2i128 Vx,Hx,Wx,Ib
4a 66 V0 vblendvps|vblendvpd|vpblendvb Vx,Hx,Wx,Lx
50 66 E0 vrangeps Vx,Hx,Wx,Ib fp b4 sae
50 66 E1 vrangepd Vx,Hx,Wx,Ib fp b8 sae
51 66 E0 vrangess Vd,Hd,Wd,Ib fp sae
51 66 E1 vrangesd Vq,Hq,Wq,Ib fp sae
54 66 E0 vfixupimmps +Vx,Hx,Wx,Ib fp b4 sae
54 66 E1 vfixupimmpd +Vx,Hx,Wx,Ib fp b8 sae
55 66 E0 vfixupimmss +Vd,Hd,Wd,Ib fp sae
55 66 E1 vfixupimmsd +Vq,Hq,Wq,Ib fp sae
56 66 E0 vreduceps Vx,Wx,Ib fp b4 sae
56 66 E1 vreducepd Vx,Wx,Ib fp b8 sae
57 66 E0 vreducess Vd,Hd,Wd,Ib fp sae
57 66 E1 vreducesd Vq,Hq,Wq,Ib fp sae
5c 66 V0 vfmaddsubps|vfmaddsubpd|vfmsubaddps|vfmsubaddpd Vx,Hx,Wx,Lx fp // FMA4: AMD APM vol. 4
5c 66 V1 vfmaddsubps|vfmaddsubpd|vfmsubaddps|vfmsubaddpd Vx,Hx,Lx,Wx fp
60 66 S,V.0 pcmpestrm -Vx,Wx,Ib unaligned <rax <rdx
61 66 S,V.0 pcmpestri -Vx,Wx,Ib unaligned <rax <rdx >rcx
62 66 S,V.0 pcmpistrm -Vx,Wx,Ib unaligned
63 66 S,V.0 pcmpistri -Vx,Wx,Ib unaligned >rcx
66 66 E0 vfpclassps kg,Wx,Ib b4
66 66 E1 vfpclasspd kg,Wx,Ib b8
67 66 E0 vfpclassss kg,Wd,Ib
67 66 E1 vfpclasssd kg,Wq,Ib
68 66 V0 vfmaddps|vfmaddpd|_|_|vfmsubps|vfmsubpd Vx,Hx,Wx,Lx fp
68 66 V1 vfmaddps|vfmaddpd|_|_|vfmsubps|vfmsubpd Vx,Hx,Lx,Wx fp
6a 66 V0 vfmaddss|_|_|_|vfmsubss Vd,Hd,Wd,Ld fp
6a 66 V1 vfmaddss|_|_|_|vfmsubss Vd,Hd,Ld,Wd fp
6b 66 V0 vfmaddsd|_|_|_|vfmsubsd Vq,Hq,Wq,Lq fp
6b 66 V1 vfmaddsd|_|_|_|vfmsubsd Vq,Hq,Lq,Wq fp
78 66 V0 vfnmaddps|vfnmaddpd|_|_|vfnmsubps|vfnmsubpd Vx,Hx,Wx,Lx fp
78 66 V1 vfnmaddps|vfnmaddpd|_|_|vfnmsubps|vfnmsubpd Vx,Hx,Lx,Wx fp
7a 66 V0 vfnmaddss|_|_|_|vfnmsubss Vd,Hd,Wd,Ld fp
7a 66 V1 vfnmaddss|_|_|_|vfnmsubss Vd,Hd,Ld,Wd fp
7b 66 V0 vfnmaddsd|_|_|_|vfnmsubsd Vq,Hq,Wq,Lq fp
7b 66 V1 vfnmaddsd|_|_|_|vfnmsubsd Vq,Hq,Lq,Wq fp
70 66 E1 vpshldw Vx,Hx,Wx,Ib
71 66 E0 vpshldd Vx,Hx,Wx,Ib b4
71 66 E1 vpshldq Vx,Hx,Wx,Ib b8
72 66 E1 vpshrdw Vx,Hx,Wx,Ib
73 66 E0 vpshrdd Vx,Hx,Wx,Ib b4
73 66 E1 vpshrdq Vx,Hx,Wx,Ib b8
cc np sha1rnds4 +Vx,Wx,Ib
ce 66 S,V1,E1 gf2p8affineqb|gf2p8affineinvqb Vx,Hx,Wx,Ib b8
de 66 V0.0 vsm3rnds2 +Vx,Hx,Wx,Ib
df 66 S,V.0 aeskeygenassist Vx,Wx,Ib
`
