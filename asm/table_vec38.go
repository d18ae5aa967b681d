package asm

// Vector instructions of map 0f 38: Intel SDM vol. 2 appendix A, table A-4, and the instruction pages for EVEX.
const tableVector0F38 = `
00,04,0b 66 N,S,V,E pshufb,pmaddubsw,pmulhrsw Vx,Hx,Wx
01,05 66 N,S,V phaddw|phaddd|phaddsw,phsubw|phsubd|phsubsw|psignb|psignw|psignd Vx,Hx,Wx
0c,45 66 V0,E0 vpermilps,vpsrlvd|vpsravd|vpsllvd Vx,Hx,Wx b4
0d 66 V0,E1 vpermilpd Vx,Hx,Wx b8
0e 66 V0 vtestps|vtestpd -Vx,Wx
10,14 66 S pblendvb,blendvps|blendvpd +Vx,Wx,xmm0
10 66 E1 vpsrlvw|vpsravw|vpsllvw Vx,Hx,Wx
10,13,15 f3 E0 vpmovuswb,vpmovusdw,vpmovusqd Wh,Vx
11,14 f3 E0 vpmovusdb,vpmovusqw Wf,Vx
13 66 V0,E0 vcvtph2ps Vx,Wh fp sae
14,64 66 E vprorvd~vprorvq|vprolvd~vprolvq,vpblendmd~vpblendmq|vblendmps~vblendmpd Vx,Hx,Wx bw
16,36 66 V0.1,E0.12 vpermps,vpermd Vx,Hx,Wx b4
16,36 66 E1.12 vpermpd,vpermq Vx,Hx,Wx b8
17 66 S,V ptest -Vx,Wx
18,58 66 V0,E0 vbroadcastss,vpbroadcastd Vx,Wd
19 66 V0.1,E1.12 vbroadcastsd Vx,Wq
19 66 E0.12 vbroadcastf32x2 Vx,Wq
1a,5a 66 V0.1 vbroadcastf128,vbroadcasti128 Vx,M16
1a,5a 66 E.12 vbroadcastf32x4~vbroadcastf64x2,vbroadcasti32x4~vbroadcasti64x2 Vx,M16
1b,5b 66 E.2 vbroadcastf32x8~vbroadcastf64x4,vbroadcasti32x8~vbroadcasti64x4 Vx,M32
1c 66 N,S,V,E pabsb|pabsw Vx,Wx
1e 66 N,S,V,E0 pabsd Vx,Wx b4
1f 66 E1 vpabsq Vx,Wx b8
20,23,30,33 66 S,V,E pmovsxbw,pmovsxwd,pmovzxbw,pmovzxwd Vx,Wh
21,24,31,34 66 S,V,E pmovsxbd,pmovsxwq,pmovzxbd,pmovzxwq Vx,Wf
22,32 66 S,V,E pmovsxbq,pmovzxbq Vx,We
25,35 66 S,V,E0 pmovsxdq,pmovzxdq Vx,Wh
20,23,25,30,33,35 f3 E0 vpmovswb,vpmovsdw,vpmovsqd,vpmovwb,vpmovdw,vpmovqd Wh,Vx
21,24,31,34 f3 E0 vpmovsdb,vpmovsqw,vpmovdb,vpmovqw Wf,Vx
12,22,32 f3 E0 vpmovusqb,vpmovsqb,vpmovqb We,Vx
26 66 E vptestmb~vptestmw kg,Hx,Wx
26 f3 E vptestnmb~vptestnmw kg,Hx,Wx
27 66 E vptestmd~vptestmq kg,Hx,Wx bw
27 f3 E vptestnmd~vptestnmq kg,Hx,Wx bw
28 66 S,V,E1 pmuldq Vx,Hx,Wx b8
29,37 66 S,V pcmpeqq,pcmpgtq Vx,Hx,Wx
29,37 66 E1 vpcmpeqq,vpcmpgtq kg,Hx,Wx b8
2a 66 S,V,E0 movntdqa Vx,Mx aligned nomask
2a f3 E1 vpbroadcastmb2q Vx,ku nomask
2b,39,3b,3d,3f 66 S,V,E0 packusdw,pminsd,pminud,pmaxsd,pmaxud|pmulld Vx,Hx,Wx b4
2c 66 V0 vmaskmovps|vmaskmovpd Vx,Hx,Mx
2e 66 V0 vmaskmovps|vmaskmovpd Mx,Hx,Vx
2c 66 E vscalefps~vscalefpd Vx,Hx,Wx fp bw er
2d 66 E vscalefss~vscalefsd Vy,Hy,Wy fp er
38,3a,3c,3e 66 S,V,E pminsb,pminuw,pmaxsb,pmaxuw Vx,Hx,Wx
28,38 f3 E vpmovm2b~vpmovm2w,vpmovm2d~vpmovm2q Vx,ku nomask
39,3b,3d,3f,46,83 66 E1 vpminsq,vpminuq,vpmaxsq,vpmaxuq|vpmullq,vpsravq,vpmultishiftqb Vx,Hx,Wx b8
29,39 f3 E vpmovb2m~vpmovw2m,vpmovd2m~vpmovq2m kg,Ux nomask
3a f3 E0 vpbroadcastmw2d Vx,ku nomask
41,db 66 S,V.0 phminposuw,aesimc Vx,Wx
42 66 E vgetexpps~vgetexppd Vx,Wx fp bw sae
43 66 E vgetexpss~vgetexpsd Vy,Hy,Wy fp sae
44,4c,4e,55 66 E vplzcntd~vplzcntq,vrcp14ps~vrcp14pd,vrsqrt14ps~vrsqrt14pd,vpopcntd~vpopcntq Vx,Wx bw
45 66 V1,E1 vpsrlvq|_|vpsllvq Vx,Hx,Wx b8
49 np V0.0 ldtilecfg -M64 !amx
49 66 V0.0 sttilecfg M64 !amx
49=c0 np V0.0 tilerelease - !amx
49 f2 V0.0 tilezero tg reg !amx
4b f2 V0.0 tileloadd tg,M agen !amx
4b 66 V0.0 tileloaddt1 tg,M agen !amx
4b f3 V0.0 tilestored -M,tg agen !amx
4d,4f 66 E vrcp14ss~vrcp14sd,vrsqrt14ss~vrsqrt14sd Vy,Hy,Wy
50 66 V0,E0 vpdpbusd|vpdpbusds|vpdpwssd|vpdpwssds +Vx,Hx,Wx b4
50,d2 np V0 vpdpbuud|vpdpbuuds,vpdpwuud|vpdpwuuds +Vx,Hx,Wx
50 f3 V0 vpdpbsud|vpdpbsuds +Vx,Hx,Wx
50 f2 V0 vpdpbssd|vpdpbssds +Vx,Hx,Wx
52 f3 E0 vdpbf16ps +Vx,Hx,Wx b4
54 66 E vpopcntb~vpopcntw Vx,Wx
59 66 V0,E1 vpbroadcastq Vx,Wq
59 66 E0 vbroadcasti32x2 Vx,Wq
5c f3 V0.0 tdpbf16ps +tg,te,th !amx
5e np V0.0 tdpbuud +tg,te,th !amx
5e 66 V0.0 tdpbusd +tg,te,th !amx
5e f3 V0.0 tdpbsud +tg,te,th !amx
5c,5e f2 V0.0 tdpfp16ps,tdpbssd +tg,te,th !amx
62 66 E0 vpexpandb Vx,Wx n1
62 66 E1 vpexpandw Vx,Wx n2
63 66 E0 vpcompressb Wx,Vx n1
63 66 E1 vpcompressw Wx,Vx n2
66,8d 66 E vpblendmb~vpblendmw,vpermb~vpermw Vx,Hx,Wx
68 f2 E vp2intersectd~vp2intersectq kg,Hx,Wx bw
70,72 66 E1 vpshldvw,vpshrdvw +Vx,Hx,Wx
71,73,76 66 E vpshldvd~vpshldvq,vpshrdvd~vpshrdvq,vpermi2d~vpermi2q|vpermi2ps~vpermi2pd +Vx,Hx,Wx bw
72 f3 V0,E0 vcvtneps2bf16 Vh,Wx b4
72 f2 E0 vcvtne2ps2bf16 Vx,Hx,Wx b4
75,7d 66 E vpermi2b~vpermi2w,vpermt2b~vpermt2w +Vx,Hx,Wx
78 66 V0,E0 vpbroadcastb Vx,Wb
79 66 V0,E0 vpbroadcastw Vx,Ww
7a 66 E0 vpbroadcastb|vpbroadcastw|vpbroadcastd Vx,Rd
7c 66 E1 vpbroadcastq Vx,Rq
7e 66 E vpermt2d~vpermt2q|vpermt2ps~vpermt2pd +Vx,Hx,Wx bw
88 66 E0 vexpandps|vpexpandd Vx,Wx n4
88 66 E1 vexpandpd|vpexpandq Vx,Wx n8
8a 66 E0 vcompressps|vpcompressd Wx,Vx n4
8a 66 E1 vcompresspd|vpcompressq Wx,Vx n8
8c 66 V vpmaskmovd~vpmaskmovq Vx,Hx,Mx
8e 66 V vpmaskmovd~vpmaskmovq Mx,Hx,Vx
8f 66 E0 vpshufbitqmb kg,Hx,Wx
90 66 V0 vpgatherdd|_|vgatherdps +Vx,vsibdd,+Hx distinct
90 66 V1 vpgatherdq|_|vgatherdpd +Vx,vsibdq,+Hx distinct
91 66 V0 vpgatherqd|_|vgatherqps +Vh,vsibqd,+Hh distinct
91 66 V1 vpgatherqq|_|vgatherqpd +Vx,vsibqq,+Hx distinct
90 66 E0 vpgatherdd|_|vgatherdps +Vx,vsibdd distinct
90 66 E1 vpgatherdq|_|vgatherdpd +Vx,vsibdq distinct
91 66 E0 vpgatherqd|_|vgatherqps +Vh,vsibqd distinct
91 66 E1 vpgatherqq|_|vgatherqpd +Vx,vsibqq distinct
96 66 V,E vfmaddsub132ps~vfmaddsub132pd|vfmsubadd132ps~vfmsubadd132pd|vfmadd132ps~vfmadd132pd +Vx,Hx,Wx fp bw er
9a 66 V,E vfmsub132ps~vfmsub132pd|_|vfnmadd132ps~vfnmadd132pd|_|vfnmsub132ps~vfnmsub132pd +Vx,Hx,Wx fp bw er
99 66 V,E vfmadd132ss~vfmadd132sd|_|vfmsub132ss~vfmsub132sd|_|vfnmadd132ss~vfnmadd132sd|_|vfnmsub132ss~vfnmsub132sd +Vy,Hy,Wy fp er
a0 66 E0 vpscatterdd|_|vscatterdps vsibdd,Vx
a0 66 E1 vpscatterdq|_|vscatterdpd vsibdq,Vx
a1 66 E0 vpscatterqd|_|vscatterqps vsibqd,Vh
a1 66 E1 vpscatterqq|_|vscatterqpd vsibqq,Vx
a6 66 V,E vfmaddsub213ps~vfmaddsub213pd|vfmsubadd213ps~vfmsubadd213pd|vfmadd213ps~vfmadd213pd +Vx,Hx,Wx fp bw er
aa 66 V,E vfmsub213ps~vfmsub213pd|_|vfnmadd213ps~vfnmadd213pd|_|vfnmsub213ps~vfnmsub213pd +Vx,Hx,Wx fp bw er
a9 66 V,E vfmadd213ss~vfmadd213sd|_|vfmsub213ss~vfmsub213sd|_|vfnmadd213ss~vfnmadd213sd|_|vfnmsub213ss~vfnmsub213sd +Vy,Hy,Wy fp er
b0 np V0 vcvtneoph2ps Vx,Mx
b0 66 V0 vcvtneeph2ps Vx,Mx
b0 f3 V0 vcvtneebf162ps Vx,Mx
b0 f2 V0 vcvtneobf162ps Vx,Mx
b1 66 V0 vbcstnesh2ps Vx,Mw
b1 f3 V0 vbcstnebf162ps Vx,Mw
b4 66 V1,E1 vpmadd52luq|vpmadd52huq +Vx,Hx,Wx b8
b6 66 V,E vfmaddsub231ps~vfmaddsub231pd|vfmsubadd231ps~vfmsubadd231pd|vfmadd231ps~vfmadd231pd +Vx,Hx,Wx fp bw er
ba 66 V,E vfmsub231ps~vfmsub231pd|_|vfnmadd231ps~vfnmadd231pd|_|vfnmsub231ps~vfnmsub231pd +Vx,Hx,Wx fp bw er
b9 66 V,E vfmadd231ss~vfmadd231sd|_|vfmsub231ss~vfmsub231sd|_|vfnmadd231ss~vfnmadd231sd|_|vfnmsub231ss~vfnmsub231sd +Vy,Hy,Wy fp er
c4 66 E vpconflictd~vpconflictq Vx,Wx bw
c8,cc np sha1nexte|sha1msg1|sha1msg2,sha256msg1|sha256msg2 +Vx,Wx
cb np sha256rnds2 +Vx,Wx,xmm0
cb f2 V0.1 vsha512rnds2 +Vx,Hx,U16
cc f2 V0.1 vsha512msg1 +Vx,U16
cd f2 V0.1 vsha512msg2 +Vx,Ux
cf 66 S,V0,E0 gf2p8mulb Vx,Hx,Wx
d2 66 V0 vpdpwusd|vpdpwusds +Vx,Hx,Wx
d2 f3 V0 vpdpwsud|vpdpwsuds +Vx,Hx,Wx
da np V0.0 vsm3msg1 +Vx,Hx,Wx
da 66 V0.0 vsm3msg2 +Vx,Hx,Wx
da f3 V0 vsm4key4 Vx,Hx,Wx
da f2 V0 vsm4rnds4 Vx,Hx,Wx
dc 66 S,V,E aesenc|aesenclast|aesdec|aesdeclast Vx,Hx,Wx nomask
`
