#include "textflag.h"

// What the Go twins do, eight numbers at a time: every product is rounded before it is added (no VFMADD), and lane k of
// a register is running sum k.

// mask<>+4*(8-n) selects the first n numbers of eight.
DATA mask<>+0(SB)/8, $-1
DATA mask<>+8(SB)/8, $-1
DATA mask<>+16(SB)/8, $-1
DATA mask<>+24(SB)/8, $-1
DATA mask<>+32(SB)/8, $0
DATA mask<>+40(SB)/8, $0
DATA mask<>+48(SB)/8, $0
DATA mask<>+56(SB)/8, $0
GLOBL mask<>(SB), RODATA|NOPTR, $64

// func dot(a, b *float32, n int) float32
TEXT ·dot(SB), NOSPLIT, $0-28
	CMPB   ·hasAVX2(SB), $0
	JEQ    plain
	MOVQ   a+0(FP), SI
	MOVQ   b+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPS X0, X0, X0
	MOVQ   CX, DX
	SHRQ   $3, DX
	JZ     tail

loop:
	VMOVUPS (SI), Y1
	VMULPS  (DI), Y1, Y1
	VADDPS  Y1, Y0, Y0
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    DX
	JNZ     loop

tail:
	ANDQ       $7, CX
	JZ         sum
	NEGQ       CX
	LEAQ       mask<>+32(SB), AX
	VMOVUPS    (AX)(CX*4), Y2
	VMASKMOVPS (SI), Y2, Y1
	VMASKMOVPS (DI), Y2, Y3
	VMULPS     Y3, Y1, Y1
	VADDPS     Y1, Y0, Y0

sum:
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x0e, X0, X1
	VADDPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VADDSS       X1, X0, X0
	VZEROUPPER
	VMOVSS       X0, ret+24(FP)
	RET

plain:
	JMP ·dotGo(SB)

// func axpy(a float32, x, y *float32, n int)
TEXT ·axpy(SB), NOSPLIT, $0-32
	CMPB         ·hasAVX2(SB), $0
	JEQ          plain
	VBROADCASTSS a+0(FP), Y0
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DI
	MOVQ         n+24(FP), CX
	MOVQ         CX, DX
	SHRQ         $4, DX
	JZ           rest

loop:
	VMULPS  (SI), Y0, Y1
	VMULPS  32(SI), Y0, Y2
	VADDPS  (DI), Y1, Y1
	VADDPS  32(DI), Y2, Y2
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	DECQ    DX
	JNZ     loop

rest:
	TESTQ   $8, CX
	JZ      rest4
	VMULPS  (SI), Y0, Y1
	VADDPS  (DI), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI

rest4:
	TESTQ   $4, CX
	JZ      rest2
	VMULPS  (SI), X0, X1
	VADDPS  (DI), X1, X1
	VMOVUPS X1, (DI)
	ADDQ    $16, SI
	ADDQ    $16, DI

rest2:
	ANDQ $3, CX
	JZ   done

one:
	VMULSS (SI), X0, X1
	VADDSS (DI), X1, X1
	VMOVSS X1, (DI)
	ADDQ   $4, SI
	ADDQ   $4, DI
	DECQ   CX
	JNZ    one

done:
	VZEROUPPER
	RET

plain:
	JMP ·axpyGo(SB)

// func blend(p, q *float32, n int, pKeep, pPull, qKeep, qPull float32)
TEXT ·blend(SB), NOSPLIT, $0-40
	CMPB         ·hasAVX2(SB), $0
	JEQ          plain
	MOVQ         p+0(FP), SI
	MOVQ         q+8(FP), DI
	MOVQ         n+16(FP), CX
	VBROADCASTSS pKeep+24(FP), Y0
	VBROADCASTSS pPull+28(FP), Y1
	VBROADCASTSS qKeep+32(FP), Y2
	VBROADCASTSS qPull+36(FP), Y3
	MOVQ         CX, DX
	SHRQ         $3, DX
	JZ           rest

loop:
	VMOVUPS (SI), Y4
	VMOVUPS (DI), Y5
	VMULPS  Y4, Y0, Y6
	VMULPS  Y5, Y1, Y7
	VMULPS  Y5, Y2, Y8
	VMULPS  Y4, Y3, Y9
	VADDPS  Y7, Y6, Y6
	VADDPS  Y9, Y8, Y8
	VMOVUPS Y6, (SI)
	VMOVUPS Y8, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    DX
	JNZ     loop

rest:
	TESTQ   $4, CX
	JZ      rest2
	VMOVUPS (SI), X4
	VMOVUPS (DI), X5
	VMULPS  X4, X0, X6
	VMULPS  X5, X1, X7
	VMULPS  X5, X2, X8
	VMULPS  X4, X3, X9
	VADDPS  X7, X6, X6
	VADDPS  X9, X8, X8
	VMOVUPS X6, (SI)
	VMOVUPS X8, (DI)
	ADDQ    $16, SI
	ADDQ    $16, DI

rest2:
	ANDQ $3, CX
	JZ   done

one:
	VMOVSS (SI), X4
	VMOVSS (DI), X5
	VMULSS X4, X0, X6
	VMULSS X5, X1, X7
	VMULSS X5, X2, X8
	VMULSS X4, X3, X9
	VADDSS X7, X6, X6
	VADDSS X9, X8, X8
	VMOVSS X6, (SI)
	VMOVSS X8, (DI)
	ADDQ   $4, SI
	ADDQ   $4, DI
	DECQ   CX
	JNZ    one

done:
	VZEROUPPER
	RET

plain:
	JMP ·blendGo(SB)

// func nesterov(w, v, sum *float32, n int, weight, momentum, rate float64)
TEXT ·nesterov(SB), NOSPLIT, $0-56
	CMPB         ·hasAVX2(SB), $0
	JEQ          plain
	MOVQ         w+0(FP), DI
	MOVQ         v+8(FP), DX
	MOVQ         sum+16(FP), SI
	MOVQ         n+24(FP), CX
	VBROADCASTSD weight+32(FP), Y12
	VBROADCASTSD momentum+40(FP), Y13
	VBROADCASTSD rate+48(FP), Y14
	MOVQ         CX, AX
	SHRQ         $2, AX
	JZ           rest

loop:
	VCVTPS2PD  (SI), Y0
	VDIVPD     Y12, Y0, Y0
	VCVTPS2PD  (DX), Y1
	VMULPD     Y13, Y1, Y1
	VADDPD     Y0, Y1, Y1
	VCVTPD2PSY Y1, X2
	VMOVUPS    X2, (DX)
	VMULPD     Y13, Y1, Y1
	VADDPD     Y0, Y1, Y1
	VMULPD     Y14, Y1, Y1
	VCVTPS2PD  (DI), Y3
	VSUBPD     Y1, Y3, Y3
	VCVTPD2PSY Y3, X3
	VMOVUPS    X3, (DI)
	ADDQ       $16, SI
	ADDQ       $16, DX
	ADDQ       $16, DI
	DECQ       AX
	JNZ        loop

rest:
	ANDQ $3, CX
	JZ   done

one:
	VCVTSS2SD (SI), X0, X0
	VDIVSD    X12, X0, X0
	VCVTSS2SD (DX), X1, X1
	VMULSD    X13, X1, X1
	VADDSD    X0, X1, X1
	VCVTSD2SS X1, X2, X2
	VMOVSS    X2, (DX)
	VMULSD    X13, X1, X1
	VADDSD    X0, X1, X1
	VMULSD    X14, X1, X1
	VCVTSS2SD (DI), X3, X3
	VSUBSD    X1, X3, X3
	VCVTSD2SS X3, X3, X3
	VMOVSS    X3, (DI)
	ADDQ      $4, SI
	ADDQ      $4, DX
	ADDQ      $4, DI
	DECQ      CX
	JNZ       one

done:
	VZEROUPPER
	RET

plain:
	JMP ·nesterovGo(SB)

// func finite(x *float32, n int) bool
TEXT ·finite(SB), NOSPLIT, $0-17
	CMPB         ·hasAVX2(SB), $0
	JEQ          plain
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	MOVL         $0x7f800000, AX // the exponent of what is not finite
	VMOVD        AX, X4
	VPBROADCASTD X4, Y4
	VPXOR        Y0, Y0, Y0
	MOVQ         CX, DX
	SHRQ         $4, DX
	JZ           rest

loop:
	VPAND    (SI), Y4, Y1
	VPAND    32(SI), Y4, Y2
	VPCMPEQD Y4, Y1, Y1
	VPCMPEQD Y4, Y2, Y2
	VPOR     Y1, Y2, Y2
	VPOR     Y2, Y0, Y0
	ADDQ     $64, SI
	DECQ     DX
	JNZ      loop

rest:
	VPTEST Y0, Y0
	JNZ    no
	ANDQ   $15, CX
	JZ     yes

one:
	MOVL (SI), DX
	ANDL AX, DX
	CMPL DX, AX
	JEQ  no
	ADDQ $4, SI
	DECQ CX
	JNZ  one

yes:
	VZEROUPPER
	MOVB $1, ret+16(FP)
	RET

no:
	VZEROUPPER
	MOVB $0, ret+16(FP)
	RET

plain:
	JMP ·finiteGo(SB)
