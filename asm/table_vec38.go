package asm

// Vector instructions of map 0f 38: Intel SDM vol. 2 appendix A, table A-4, and the
// instruction pages for EVEX.
const tableVector0F38 = `
00 66 N,S,V,E pshufb Vx,Hx,Wx
01 66 N,S,V phaddw|phaddd|phaddsw Vx,Hx,Wx
04 66 N,S,V,E pmaddubsw Vx,Hx,Wx
05 66 N,S,V phsubw|phsubd|phsubsw|psignb|psignw|psignd Vx,Hx,Wx
0b 66 N,S,V,E pmulhrsw Vx,Hx,Wx
0c 66 V0,E0 vpermilps Vx,Hx,Wx b4
0d 66 V0,E1 vpermilpd Vx,Hx,Wx b8
0e 66 V0 vtestps|vtestpd -Vx,Wx
10 66 S pblendvb +Vx,Wx,xmm0
14 66 S blendvps|blendvpd +Vx,Wx,xmm0
10 66 E1 vpsrlvw|vpsravw|vpsllvw Vx,Hx,Wx
10 f3 E0 vpmovuswb Wh,Vx
11 f3 E0 vpmovusdb Wf,Vx
12 f3 E0 vpmovusqb We,Vx
13 f3 E0 vpmovusdw Wh,Vx
14 f3 E0 vpmovusqw Wf,Vx
15 f3 E0 vpmovusqd Wh,Vx
13 66 V0,E0 vcvtph2ps Vx,Wh fp sae
14 66 E0 vprorvd|vprolvd Vx,Hx,Wx b4
14 66 E1 vprorvq|vprolvq Vx,Hx,Wx b8
16 66 V0.1,E0.12 vpermps Vx,Hx,Wx b4
16 66 E1.12 vpermpd Vx,Hx,Wx b8
17 66 S,V ptest -Vx,Wx
18 66 V0,E0 vbroadcastss Vx,Wd
19 66 V0.1,E1.12 vbroadcastsd Vx,Wq
19 66 E0.12 vbroadcastf32x2 Vx,Wq
1a 66 V0.1 vbroadcastf128 Vx,M16
1a 66 E0.12 vbroadcastf32x4 Vx,M16
1a 66 E1.12 vbroadcastf64x2 Vx,M16
1b 66 E0.2 vbroadcastf32x8 Vx,M32
1b 66 E1.2 vbroadcastf64x4 Vx,M32
1c 66 N,S,V,E pabsb|pabsw Vx,Wx
1e 66 N,S,V,E0 pabsd Vx,Wx b4
1f 66 E1 vpabsq Vx,Wx b8
20 66 S,V,E pmovsxbw Vx,Wh
21 66 S,V,E pmovsxbd Vx,Wf
22 66 S,V,E pmovsxbq Vx,We
23 66 S,V,E pmovsxwd Vx,Wh
24 66 S,V,E pmovsxwq Vx,Wf
25 66 S,V,E0 pmovsxdq Vx,Wh
20 f3 E0 vpmovswb Wh,Vx
21 f3 E0 vpmovsdb Wf,Vx
22 f3 E0 vpmovsqb We,Vx
23 f3 E0 vpmovsdw Wh,Vx
24 f3 E0 vpmovsqw Wf,Vx
25 f3 E0 vpmovsqd Wh,Vx
26 66 E0 vptestmb kg,Hx,Wx
26 66 E1 vptestmw kg,Hx,Wx
26 f3 E0 vptestnmb kg,Hx,Wx
26 f3 E1 vptestnmw kg,Hx,Wx
27 66 E0 vptestmd kg,Hx,Wx b4
27 66 E1 vptestmq kg,Hx,Wx b8
27 f3 E0 vptestnmd kg,Hx,Wx b4
27 f3 E1 vptestnmq kg,Hx,Wx b8
28 66 S,V,E1 pmuldq Vx,Hx,Wx b8
28 f3 E0 vpmovm2b Vx,ku nomask
28 f3 E1 vpmovm2w Vx,ku nomask
29 66 S,V pcmpeqq Vx,Hx,Wx
29 66 E1 vpcmpeqq kg,Hx,Wx b8
29 f3 E0 vpmovb2m kg,Ux nomask
29 f3 E1 vpmovw2m kg,Ux nomask
2a 66 S,V,E0 movntdqa Vx,Mx aligned nomask
2a f3 E1 vpbroadcastmb2q Vx,ku nomask
2b 66 S,V,E0 packusdw Vx,Hx,Wx b4
2c 66 V0 vmaskmovps|vmaskmovpd Vx,Hx,Mx
2e 66 V0 vmaskmovps|vmaskmovpd Mx,Hx,Vx
2c 66 E0 vscalefps Vx,Hx,Wx fp b4 er
2c 66 E1 vscalefpd Vx,Hx,Wx fp b8 er
2d 66 E0 vscalefss Vd,Hd,Wd fp er
2d 66 E1 vscalefsd Vq,Hq,Wq fp er
30 66 S,V,E pmovzxbw Vx,Wh
31 66 S,V,E pmovzxbd Vx,Wf
32 66 S,V,E pmovzxbq Vx,We
33 66 S,V,E pmovzxwd Vx,Wh
34 66 S,V,E pmovzxwq Vx,Wf
35 66 S,V,E0 pmovzxdq Vx,Wh
30 f3 E0 vpmovwb Wh,Vx
31 f3 E0 vpmovdb Wf,Vx
32 f3 E0 vpmovqb We,Vx
33 f3 E0 vpmovdw Wh,Vx
34 f3 E0 vpmovqw Wf,Vx
35 f3 E0 vpmovqd Wh,Vx
36 66 V0.1,E0.12 vpermd Vx,Hx,Wx b4
36 66 E1.12 vpermq Vx,Hx,Wx b8
37 66 S,V pcmpgtq Vx,Hx,Wx
37 66 E1 vpcmpgtq kg,Hx,Wx b8
38 66 S,V,E pminsb Vx,Hx,Wx
38 f3 E0 vpmovm2d Vx,ku nomask
38 f3 E1 vpmovm2q Vx,ku nomask
39 66 S,V,E0 pminsd Vx,Hx,Wx b4
39 66 E1 vpminsq Vx,Hx,Wx b8
39 f3 E0 vpmovd2m kg,Ux nomask
39 f3 E1 vpmovq2m kg,Ux nomask
3a 66 S,V,E pminuw Vx,Hx,Wx
3a f3 E0 vpbroadcastmw2d Vx,ku nomask
3b 66 S,V,E0 pminud Vx,Hx,Wx b4
3b 66 E1 vpminuq Vx,Hx,Wx b8
3c 66 S,V,E pmaxsb Vx,Hx,Wx
3d 66 S,V,E0 pmaxsd Vx,Hx,Wx b4
3d 66 E1 vpmaxsq Vx,Hx,Wx b8
3e 66 S,V,E pmaxuw Vx,Hx,Wx
3f 66 S,V,E0 pmaxud|pmulld Vx,Hx,Wx b4
3f 66 E1 vpmaxuq|vpmullq Vx,Hx,Wx b8
41 66 S,V.0 phminposuw Vx,Wx
42 66 E0 vgetexpps Vx,Wx fp b4 sae
42 66 E1 vgetexppd Vx,Wx fp b8 sae
43 66 E0 vgetexpss Vd,Hd,Wd fp sae
43 66 E1 vgetexpsd Vq,Hq,Wq fp sae
44 66 E0 vplzcntd Vx,Wx b4
44 66 E1 vplzcntq Vx,Wx b8
45 66 V0,E0 vpsrlvd|vpsravd|vpsllvd Vx,Hx,Wx b4
45 66 V1,E1 vpsrlvq|_|vpsllvq Vx,Hx,Wx b8
46 66 E1 vpsravq Vx,Hx,Wx b8
49 np V0.0 ldtilecfg -M64
49 66 V0.0 sttilecfg M64
49=c0 np V0.0 tilerelease -
49 f2 V0.0 tilezero tg reg
4b f2 V0.0 tileloadd tg,M agen
4b 66 V0.0 tileloaddt1 tg,M agen
4b f3 V0.0 tilestored -M,tg agen
4c 66 E0 vrcp14ps Vx,Wx b4
4c 66 E1 vrcp14pd Vx,Wx b8
4d 66 E0 vrcp14ss Vd,Hd,Wd
4d 66 E1 vrcp14sd Vq,Hq,Wq
4e 66 E0 vrsqrt14ps Vx,Wx b4
4e 66 E1 vrsqrt14pd Vx,Wx b8
4f 66 E0 vrsqrt14ss Vd,Hd,Wd
4f 66 E1 vrsqrt14sd Vq,Hq,Wq
50 66 V0,E0 vpdpbusd|vpdpbusds|vpdpwssd|vpdpwssds +Vx,Hx,Wx b4
50 np V0 vpdpbuud|vpdpbuuds +Vx,Hx,Wx
50 f3 V0 vpdpbsud|vpdpbsuds +Vx,Hx,Wx
50 f2 V0 vpdpbssd|vpdpbssds +Vx,Hx,Wx
52 f3 E0 vdpbf16ps +Vx,Hx,Wx b4
54 66 E0 vpopcntb Vx,Wx
54 66 E1 vpopcntw Vx,Wx
55 66 E0 vpopcntd Vx,Wx b4
55 66 E1 vpopcntq Vx,Wx b8
58 66 V0,E0 vpbroadcastd Vx,Wd
59 66 V0,E1 vpbroadcastq Vx,Wq
59 66 E0 vbroadcasti32x2 Vx,Wq
5a 66 V0.1 vbroadcasti128 Vx,M16
5a 66 E0.12 vbroadcasti32x4 Vx,M16
5a 66 E1.12 vbroadcasti64x2 Vx,M16
5b 66 E0.2 vbroadcasti32x8 Vx,M32
5b 66 E1.2 vbroadcasti64x4 Vx,M32
5c f3 V0.0 tdpbf16ps +tg,te,th
5c f2 V0.0 tdpfp16ps +tg,te,th
5e np V0.0 tdpbuud +tg,te,th
5e 66 V0.0 tdpbusd +tg,te,th
5e f3 V0.0 tdpbsud +tg,te,th
5e f2 V0.0 tdpbssd +tg,te,th
62 66 E0 vpexpandb Vx,Wx n1
62 66 E1 vpexpandw Vx,Wx n2
63 66 E0 vpcompressb Wx,Vx n1
63 66 E1 vpcompressw Wx,Vx n2
64 66 E0 vpblendmd|vblendmps Vx,Hx,Wx b4
64 66 E1 vpblendmq|vblendmpd Vx,Hx,Wx b8
66 66 E0 vpblendmb Vx,Hx,Wx
66 66 E1 vpblendmw Vx,Hx,Wx
68 f2 E0 vp2intersectd kg,Hx,Wx b4
68 f2 E1 vp2intersectq kg,Hx,Wx b8
70 66 E1 vpshldvw +Vx,Hx,Wx
71 66 E0 vpshldvd +Vx,Hx,Wx b4
71 66 E1 vpshldvq +Vx,Hx,Wx b8
72 66 E1 vpshrdvw +Vx,Hx,Wx
73 66 E0 vpshrdvd +Vx,Hx,Wx b4
73 66 E1 vpshrdvq +Vx,Hx,Wx b8
72 f3 V0,E0 vcvtneps2bf16 Vh,Wx b4
72 f2 E0 vcvtne2ps2bf16 Vx,Hx,Wx b4
75 66 E0 vpermi2b +Vx,Hx,Wx
75 66 E1 vpermi2w +Vx,Hx,Wx
76 66 E0 vpermi2d|vpermi2ps +Vx,Hx,Wx b4
76 66 E1 vpermi2q|vpermi2pd +Vx,Hx,Wx b8
78 66 V0,E0 vpbroadcastb Vx,Wb
79 66 V0,E0 vpbroadcastw Vx,Ww
7a 66 E0 vpbroadcastb|vpbroadcastw|vpbroadcastd Vx,Rd
7c 66 E1 vpbroadcastq Vx,Rq
7d 66 E0 vpermt2b +Vx,Hx,Wx
7d 66 E1 vpermt2w +Vx,Hx,Wx
7e 66 E0 vpermt2d|vpermt2ps +Vx,Hx,Wx b4
7e 66 E1 vpermt2q|vpermt2pd +Vx,Hx,Wx b8
83 66 E1 vpmultishiftqb Vx,Hx,Wx b8
88 66 E0 vexpandps|vpexpandd Vx,Wx n4
88 66 E1 vexpandpd|vpexpandq Vx,Wx n8
8a 66 E0 vcompressps|vpcompressd Wx,Vx n4
8a 66 E1 vcompresspd|vpcompressq Wx,Vx n8
8c 66 V0 vpmaskmovd Vx,Hx,Mx
8c 66 V1 vpmaskmovq Vx,Hx,Mx
8e 66 V0 vpmaskmovd Mx,Hx,Vx
8e 66 V1 vpmaskmovq Mx,Hx,Vx
8d 66 E0 vpermb Vx,Hx,Wx
8d 66 E1 vpermw Vx,Hx,Wx
8f 66 E0 vpshufbitqmb kg,Hx,Wx
90 66 V0 vpgatherdd|_|vgatherdps +Vx,vsibdd,+Hx distinct
90 66 V1 vpgatherdq|_|vgatherdpd +Vx,vsibdq,+Hx distinct
91 66 V0 vpgatherqd|_|vgatherqps +Vh,vsibqd,+Hh distinct
91 66 V1 vpgatherqq|_|vgatherqpd +Vx,vsibqq,+Hx distinct
90 66 E0 vpgatherdd|_|vgatherdps +Vx,vsibdd distinct
90 66 E1 vpgatherdq|_|vgatherdpd +Vx,vsibdq distinct
91 66 E0 vpgatherqd|_|vgatherqps +Vh,vsibqd distinct
91 66 E1 vpgatherqq|_|vgatherqpd +Vx,vsibqq distinct
96 66 V0,E0 vfmaddsub132ps|vfmsubadd132ps|vfmadd132ps|_|vfmsub132ps|_|vfnmadd132ps|_|vfnmsub132ps +Vx,Hx,Wx fp b4 er
96 66 V1,E1 vfmaddsub132pd|vfmsubadd132pd|vfmadd132pd|_|vfmsub132pd|_|vfnmadd132pd|_|vfnmsub132pd +Vx,Hx,Wx fp b8 er
99 66 V0,E0 vfmadd132ss|_|vfmsub132ss|_|vfnmadd132ss|_|vfnmsub132ss +Vd,Hd,Wd fp er
99 66 V1,E1 vfmadd132sd|_|vfmsub132sd|_|vfnmadd132sd|_|vfnmsub132sd +Vq,Hq,Wq fp er
a0 66 E0 vpscatterdd|_|vscatterdps vsibdd,Vx
a0 66 E1 vpscatterdq|_|vscatterdpd vsibdq,Vx
a1 66 E0 vpscatterqd|_|vscatterqps vsibqd,Vh
a1 66 E1 vpscatterqq|_|vscatterqpd vsibqq,Vx
a6 66 V0,E0 vfmaddsub213ps|vfmsubadd213ps|vfmadd213ps|_|vfmsub213ps|_|vfnmadd213ps|_|vfnmsub213ps +Vx,Hx,Wx fp b4 er
a6 66 V1,E1 vfmaddsub213pd|vfmsubadd213pd|vfmadd213pd|_|vfmsub213pd|_|vfnmadd213pd|_|vfnmsub213pd +Vx,Hx,Wx fp b8 er
a9 66 V0,E0 vfmadd213ss|_|vfmsub213ss|_|vfnmadd213ss|_|vfnmsub213ss +Vd,Hd,Wd fp er
a9 66 V1,E1 vfmadd213sd|_|vfmsub213sd|_|vfnmadd213sd|_|vfnmsub213sd +Vq,Hq,Wq fp er
b0 np V0 vcvtneoph2ps Vx,Mx
b0 66 V0 vcvtneeph2ps Vx,Mx
b0 f3 V0 vcvtneebf162ps Vx,Mx
b0 f2 V0 vcvtneobf162ps Vx,Mx
b1 66 V0 vbcstnesh2ps Vx,Mw
b1 f3 V0 vbcstnebf162ps Vx,Mw
b4 66 V1,E1 vpmadd52luq|vpmadd52huq +Vx,Hx,Wx b8
b6 66 V0,E0 vfmaddsub231ps|vfmsubadd231ps|vfmadd231ps|_|vfmsub231ps|_|vfnmadd231ps|_|vfnmsub231ps +Vx,Hx,Wx fp b4 er
b6 66 V1,E1 vfmaddsub231pd|vfmsubadd231pd|vfmadd231pd|_|vfmsub231pd|_|vfnmadd231pd|_|vfnmsub231pd +Vx,Hx,Wx fp b8 er
b9 66 V0,E0 vfmadd231ss|_|vfmsub231ss|_|vfnmadd231ss|_|vfnmsub231ss +Vd,Hd,Wd fp er
b9 66 V1,E1 vfmadd231sd|_|vfmsub231sd|_|vfnmadd231sd|_|vfnmsub231sd +Vq,Hq,Wq fp er
c4 66 E0 vpconflictd Vx,Wx b4
c4 66 E1 vpconflictq Vx,Wx b8
c8 np sha1nexte|sha1msg1|sha1msg2 +Vx,Wx
cb np sha256rnds2 +Vx,Wx,xmm0
cc np sha256msg1|sha256msg2 +Vx,Wx
cb f2 V0.1 vsha512rnds2 +Vx,Hx,U16
cc f2 V0.1 vsha512msg1 +Vx,U16
cd f2 V0.1 vsha512msg2 +Vx,Ux
cf 66 S,V0,E0 gf2p8mulb Vx,Hx,Wx
d2 np V0 vpdpwuud|vpdpwuuds +Vx,Hx,Wx
d2 66 V0 vpdpwusd|vpdpwusds +Vx,Hx,Wx
d2 f3 V0 vpdpwsud|vpdpwsuds +Vx,Hx,Wx
da np V0.0 vsm3msg1 +Vx,Hx,Wx
da 66 V0.0 vsm3msg2 +Vx,Hx,Wx
da f3 V0 vsm4key4 Vx,Hx,Wx
da f2 V0 vsm4rnds4 Vx,Hx,Wx
db 66 S,V.0 aesimc Vx,Wx
dc 66 S,V,E aesenc|aesenclast|aesdec|aesdeclast Vx,Hx,Wx nomask
`
