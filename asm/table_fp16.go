package asm

// AVX512-FP16: Intel SDM vol. 2 instruction pages (maps 5 and 6, and 0f 3a without 66).
const tableFP16Map3 = `
08,26,56 np E0 vrndscaleph,vgetmantph,vreduceph Vx,Wx,Ib fp b2 sae
0a,27,57 np E0 vrndscalesh,vgetmantsh,vreducesh Vw,Hw,Ww,Ib fp sae
66 np E0 vfpclassph kg,Wx,Ib b2
67 np E0 vfpclasssh kg,Ww,Ib
c2 np E0 vcmpph kg,Hx,Wx,Ib fp b2 sae
c2 f3 E0 vcmpsh kg,Hw,Ww,Ib fp sae
`

const tableFP16Map5 = `
10 f3 E0 vmovsh Vw,Mw
10 f3 E0 vmovsh Vw,Hw,Uw
11 f3 E0 vmovsh Mw,Vw
11 f3 E0 vmovsh Uw,Hw,Vw
1d np E0 vcvtss2sh Vw,Hd,Wd fp er
1d 66 E0 vcvtps2phx Vh,Wx fp b4 er
2e np E0 vucomish|vcomish -Vw,Ww fp sae nomask
51,7d np E0 vsqrtph,vcvtph2uw Vx,Wx fp b2 er
58,5c,5e np E0 vaddph|vmulph,vsubph,vdivph Vx,Hx,Wx fp b2 er
51,58,5c,5e f3 E0 vsqrtsh,vaddsh|vmulsh,vsubsh,vdivsh Vw,Hw,Ww fp er
5a np E0 vcvtph2pd Vx,Wf fp b2 sae
5a 66 E1 vcvtpd2ph Vf,Wx fp b8 er
5a f3 E0 vcvtsh2sd Vq,Hw,Ww fp sae
5a f2 E1 vcvtsd2sh Vw,Hq,Wq fp er
5b np E0 vcvtdq2ph Vh,Wx fp b4 er
5b np E1 vcvtqq2ph Vf,Wx fp b8 er
5b 66 E0 vcvtph2dq Vx,Wh fp b2 er
5b f3 E0 vcvttph2dq Vx,Wh fp b2 sae
5d np E0 vminph|_|vmaxph Vx,Hx,Wx fp b2 sae
5d f3 E0 vminsh|_|vmaxsh Vw,Hw,Ww fp sae
6e 66 E.0 vmovw Vw,Mw nomask
6e 66 E.0 vmovw Vw,Rd nomask
78 np E0 vcvttph2udq Vx,Wh fp b2 sae
78,7a 66 E0 vcvttph2uqq,vcvttph2qq Vx,Wf fp b2 sae
2c,78 f3 E vcvttsh2si,vcvttsh2usi Gy,Ww fp sae nomask
79 np E0 vcvtph2udq Vx,Wh fp b2 er
79,7b 66 E0 vcvtph2uqq,vcvtph2qq Vx,Wf fp b2 er
2d,79 f3 E vcvtsh2si,vcvtsh2usi Gy,Ww fp er nomask
7a f2 E0 vcvtudq2ph Vh,Wx fp b4 er
7a f2 E1 vcvtuqq2ph Vf,Wx fp b8 er
2a,7b f3 E vcvtsi2sh,vcvtusi2sh Vw,Hw,Ey fp er nomask
7c np E0 vcvttph2uw Vx,Wx fp b2 sae
7c 66 E0 vcvttph2w Vx,Wx fp b2 sae
7d 66 E0 vcvtph2w Vx,Wx fp b2 er
7d f3 E0 vcvtw2ph Vx,Wx fp b2 er
7d f2 E0 vcvtuw2ph Vx,Wx fp b2 er
7e 66 E.0 vmovw Mw,Vw nomask
7e 66 E.0 vmovw Rd,Vw nomask
`

const tableFP16Map6 = `
13 np E0 vcvtsh2ss Vd,Hw,Ww fp sae
13 66 E0 vcvtph2psx Vx,Wh fp b2 sae
2c 66 E0 vscalefph Vx,Hx,Wx fp b2 er
2d 66 E0 vscalefsh Vw,Hw,Ww fp er
42 66 E0 vgetexpph Vx,Wx fp b2 sae
43 66 E0 vgetexpsh Vw,Hw,Ww fp sae
4c 66 E0 vrcpph|_|vrsqrtph Vx,Wx b2
4d 66 E0 vrcpsh|_|vrsqrtsh Vw,Hw,Ww
56 f3 E0 vfmaddcph +Vx,Hx,Wx fp b4 er distinct
56 f2 E0 vfcmaddcph +Vx,Hx,Wx fp b4 er distinct
57 f3 E0 vfmaddcsh +Vd,Hd,Wd fp er distinct
57 f2 E0 vfcmaddcsh +Vd,Hd,Wd fp er distinct
96 66 E0 vfmaddsub132ph|vfmsubadd132ph|vfmadd132ph|_|vfmsub132ph|_|vfnmadd132ph|_|vfnmsub132ph +Vx,Hx,Wx fp b2 er
99 66 E0 vfmadd132sh|_|vfmsub132sh|_|vfnmadd132sh|_|vfnmsub132sh +Vw,Hw,Ww fp er
a6 66 E0 vfmaddsub213ph|vfmsubadd213ph|vfmadd213ph|_|vfmsub213ph|_|vfnmadd213ph|_|vfnmsub213ph +Vx,Hx,Wx fp b2 er
a9 66 E0 vfmadd213sh|_|vfmsub213sh|_|vfnmadd213sh|_|vfnmsub213sh +Vw,Hw,Ww fp er
b6 66 E0 vfmaddsub231ph|vfmsubadd231ph|vfmadd231ph|_|vfmsub231ph|_|vfnmadd231ph|_|vfnmsub231ph +Vx,Hx,Wx fp b2 er
b9 66 E0 vfmadd231sh|_|vfmsub231sh|_|vfnmadd231sh|_|vfnmsub231sh +Vw,Hw,Ww fp er
d6 f3 E0 vfmulcph Vx,Hx,Wx fp b4 er distinct
d6 f2 E0 vfcmulcph Vx,Hx,Wx fp b4 er distinct
d7 f3 E0 vfmulcsh Vd,Hd,Wd fp er distinct
d7 f2 E0 vfcmulcsh Vd,Hd,Wd fp er distinct
`
