package asm

// Vector instructions of map 0f 3a: Intel SDM vol. 2 appendix A, table A-5, and the instruction pages for EVEX.
const tableVector0F3A = `
00 66 V1.1,E1.12 vpermq|vpermpd Vx,Wx,Ib b8
02 66 V0 vpblendd Vx,Hx,Wx,Ib
03,71,73 66 E valignd~valignq,vpshldd~vpshldq,vpshrdd~vpshrdq Vx,Hx,Wx,Ib bw
04 66 V0,E0 vpermilps Vx,Wx,Ib b4
05 66 V0,E1 vpermilpd Vx,Wx,Ib b8
06,46 66 V0.1 vperm2f128,vperm2i128 Vx,Hx,Wx,Ib
08 66 S,V roundps|roundpd Vx,Wx,Ib fp
08 66 E0 vrndscaleps Vx,Wx,Ib fp b4 sae
09 66 E1 vrndscalepd Vx,Wx,Ib fp b8 sae
0a 66 S,V roundss Vd,Hd,Wd,Ib fp
0a 66 E0 vrndscaless Vd,Hd,Wd,Ib fp sae
0b 66 S,V roundsd Vq,Hq,Wq,Ib fp
0b 66 E1 vrndscalesd Vq,Hq,Wq,Ib fp sae
0c,42 66 S,V blendps|blendpd|pblendw,mpsadbw Vx,Hx,Wx,Ib
0f 66 N,S,V,E palignr Vx,Hx,Wx,Ib
14 66 S,V.0,E.0 pextrb Mb,V16,Ib nomask
15 66 S,V.0,E.0 pextrw Mw,V16,Ib nomask
14 66 S,V.0,E.0 pextrb|pextrw Rd,V16,Ib nomask
16 66 S,V.0,E.0 pextrd~pextrq Ey,V16,Ib nomask
17 66 S,V.0,E.0 extractps Ed,V16,Ib nomask
18,38 66 V0.1 vinsertf128,vinserti128 Vx,Hx,W16,Ib
18,38 66 E.12 vinsertf32x4~vinsertf64x2,vinserti32x4~vinserti64x2 Vx,Hx,W16,Ib
19,39 66 V0.1 vextractf128,vextracti128 W16,Vx,Ib
19,39 66 E.12 vextractf32x4~vextractf64x2,vextracti32x4~vextracti64x2 W16,Vx,Ib
1a,3a 66 E.2 vinsertf32x8~vinsertf64x4,vinserti32x8~vinserti64x4 Vx,Hx,W32,Ib
1b,3b 66 E.2 vextractf32x8~vextractf64x4,vextracti32x8~vextracti64x4 W32,Vx,Ib
1d 66 V0,E0 vcvtps2ph Wh,Vx,Ib fp sae
1e 66 E vpcmpud~vpcmpuq|vpcmpd~vpcmpq kg,Hx,Wx,Ib bw
20 66 S,V.0,E.0 pinsrb V16,H16,Mb,Ib nomask
20 66 S,V.0,E.0 pinsrb V16,H16,Rd,Ib nomask
21 66 S,V.0,E0.0 insertps V16,H16,Wd,Ib nomask
22 66 S,V.0,E.0 pinsrd~pinsrq V16,H16,Ey,Ib nomask
23,43 66 E.12 vshuff32x4~vshuff64x2,vshufi32x4~vshufi64x2 Vx,Hx,Wx,Ib bw
25 66 E vpternlogd~vpternlogq +Vx,Hx,Wx,Ib bw
26,56 66 E vgetmantps~vgetmantpd,vreduceps~vreducepd Vx,Wx,Ib fp bw sae
27,51,57 66 E vgetmantss~vgetmantsd,vrangess~vrangesd,vreducess~vreducesd Vy,Hy,Wy,Ib fp sae
30 66 V.0 kshiftrb~kshiftrw|kshiftrd~kshiftrq|kshiftlb~kshiftlw|kshiftld~kshiftlq kg,ku,Ib
3e 66 E vpcmpub~vpcmpuw|vpcmpb~vpcmpw kg,Hx,Wx,Ib
40 66 S,V dpps Vx,Hx,Wx,Ib fp
41 66 S,V.0 dppd Vx,Hx,Wx,Ib fp
42 66 E0 vdbpsadbw Vx,Hx,Wx,Ib
44 66 S,V,E pclmulqdq Vx,Hx,Wx,Ib nomask
4a 66 V0 vblendvps|vblendvpd|vpblendvb Vx,Hx,Wx,Lx
50 66 E vrangeps~vrangepd Vx,Hx,Wx,Ib fp bw sae
54 66 E vfixupimmps~vfixupimmpd +Vx,Hx,Wx,Ib fp bw sae
55 66 E vfixupimmss~vfixupimmsd +Vy,Hy,Wy,Ib fp sae
5c 66 V0 vfmaddsubps|vfmaddsubpd|vfmsubaddps|vfmsubaddpd Vx,Hx,Wx,Lx fp // FMA4: AMD APM vol. 4
60 66 S,V.0 pcmpestrm -Vx,Wx,Ib unaligned <rax <rdx >xmm0
61 66 S,V.0 pcmpestri -Vx,Wx,Ib unaligned <rax <rdx >rcx
62 66 S,V.0 pcmpistrm -Vx,Wx,Ib unaligned >xmm0
63 66 S,V.0 pcmpistri -Vx,Wx,Ib unaligned >rcx
66 66 E vfpclassps~vfpclasspd kg,Wx,Ib bw
67 66 E vfpclassss~vfpclasssd kg,Wy,Ib
68,78 66 V0 vfmaddps|vfmaddpd|_|_|vfmsubps|vfmsubpd,vfnmaddps|vfnmaddpd|_|_|vfnmsubps|vfnmsubpd Vx,Hx,Wx,Lx fp
5c,68 66 V1 vfmaddsubps|vfmaddsubpd|vfmsubaddps|vfmsubaddpd,vfmaddps|vfmaddpd|_|_|vfmsubps|vfmsubpd Vx,Hx,Lx,Wx fp
6a,7a 66 V0 vfmaddss|_|_|_|vfmsubss,vfnmaddss|_|_|_|vfnmsubss Vd,Hd,Wd,Ld fp
6a,7a 66 V1 vfmaddss|_|_|_|vfmsubss,vfnmaddss|_|_|_|vfnmsubss Vd,Hd,Ld,Wd fp
6b,7b 66 V0 vfmaddsd|_|_|_|vfmsubsd,vfnmaddsd|_|_|_|vfnmsubsd Vq,Hq,Wq,Lq fp
6b,7b 66 V1 vfmaddsd|_|_|_|vfmsubsd,vfnmaddsd|_|_|_|vfnmsubsd Vq,Hq,Lq,Wq fp
78 66 V1 vfnmaddps|vfnmaddpd|_|_|vfnmsubps|vfnmsubpd Vx,Hx,Lx,Wx fp
70,72 66 E1 vpshldw,vpshrdw Vx,Hx,Wx,Ib
cc np sha1rnds4 +Vx,Wx,Ib
ce 66 S,V1,E1 gf2p8affineqb|gf2p8affineinvqb Vx,Hx,Wx,Ib b8
de 66 V0.0 vsm3rnds2 +Vx,Hx,Wx,Ib
df 66 S,V.0 aeskeygenassist Vx,Wx,Ib
`
