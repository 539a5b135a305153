#include "textflag.h"

// Loops take 64 elements at a time into four running sums, then what is left: 32, 16, and the last few.

// func dot(a, b *float32, n int) float32
TEXT ·dot(SB), NOSPLIT, $0-28
	CMPQ ·level(SB), $2
	JNE  lesser
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DI
	MOVQ n+16(FP), CX
	MOVQ CX, DX
	XORL AX, AX     // bytes that are done
	SHRQ $6, DX
	JZ   none
	VMOVUPS (SI), Z4
	VMOVUPS 64(SI), Z5
	VMOVUPS 128(SI), Z6
	VMOVUPS 192(SI), Z7
	VMULPS  (DI), Z4, Z0
	VMULPS  64(DI), Z5, Z1
	VMULPS  128(DI), Z6, Z2
	VMULPS  192(DI), Z7, Z3
	MOVL    $256, AX
	DECQ    DX
	JZ      rest

loop:
	VMOVUPS     (SI)(AX*1), Z4
	VMOVUPS     64(SI)(AX*1), Z5
	VMOVUPS     128(SI)(AX*1), Z6
	VMOVUPS     192(SI)(AX*1), Z7
	VFMADD231PS (DI)(AX*1), Z4, Z0
	VFMADD231PS 64(DI)(AX*1), Z5, Z1
	VFMADD231PS 128(DI)(AX*1), Z6, Z2
	VFMADD231PS 192(DI)(AX*1), Z7, Z3
	ADDQ        $256, AX
	DECQ        DX
	JNZ         loop

rest:
	TESTQ       $32, CX
	JZ          rest16
	VMOVUPS     (SI)(AX*1), Z4
	VMOVUPS     64(SI)(AX*1), Z5
	VFMADD231PS (DI)(AX*1), Z4, Z0
	VFMADD231PS 64(DI)(AX*1), Z5, Z1
	ADDQ        $128, AX

rest16:
	TESTQ       $16, CX
	JZ          tail
	VMOVUPS     (SI)(AX*1), Z6
	VFMADD231PS (DI)(AX*1), Z6, Z2
	ADDQ        $64, AX

// The last few have sums of their own, in narrow registers, which wait neither for the others nor for masks.
tail:
	VXORPS  X8, X8, X8
	VXORPS  X9, X9, X9
	ANDQ    $15, CX
	JZ      sum
	TESTQ   $8, CX
	JZ      tail4
	VMOVUPS (SI)(AX*1), Y4
	VMULPS  (DI)(AX*1), Y4, Y9
	ADDQ    $32, AX

tail4:
	TESTQ   $4, CX
	JZ      tail2
	VMOVUPS (SI)(AX*1), X4
	VMULPS  (DI)(AX*1), X4, X8
	ADDQ    $16, AX

tail2:
	TESTQ       $3, CX
	JZ          sum
	TESTQ       $2, CX
	JZ          tail1
	VMOVSD      (SI)(AX*1), X4
	VMOVSD      (DI)(AX*1), X5
	VFMADD231PS X5, X4, X8
	ADDQ        $8, AX

tail1:
	TESTQ       $1, CX
	JZ          sum
	VMOVSS      (SI)(AX*1), X4
	VMOVSS      (DI)(AX*1), X5
	VFMADD231PS X5, X4, X8

sum:
	VADDPS        Z1, Z0, Z0
	VADDPS        Z3, Z2, Z2
	VADDPS        Z2, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPS        Y9, Y0, Y0
	VADDPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X8, X0, X0
	VADDPS        X1, X0, X0
	VPERMILPS     $0x0e, X0, X1
	VADDPS        X1, X0, X0
	VMOVSHDUP     X0, X1
	VADDSS        X1, X0, X0
	VZEROUPPER
	VMOVSS        X0, ret+24(FP)
	RET

none:
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	JMP    rest

lesser:
	CMPQ ·level(SB), $1
	JLT  plain
	JMP  dotAVX2<>(SB)

plain:
	JMP ·dotGo(SB)

// func axpy(a float32, x, y *float32, n int)
TEXT ·axpy(SB), NOSPLIT, $0-32
	CMPQ   ·level(SB), $1
	JEQ    avx2
	JLT    plain
	VBROADCASTSS a+0(FP), Z0
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DI
	MOVQ         n+24(FP), CX
	MOVQ         CX, DX
	SHRQ         $6, DX
	JZ           rest

loop:
	VMOVUPS     (SI), Z4
	VMOVUPS     64(SI), Z5
	VMOVUPS     128(SI), Z6
	VMOVUPS     192(SI), Z7
	VFMADD213PS (DI), Z0, Z4
	VFMADD213PS 64(DI), Z0, Z5
	VFMADD213PS 128(DI), Z0, Z6
	VFMADD213PS 192(DI), Z0, Z7
	VMOVUPS     Z4, (DI)
	VMOVUPS     Z5, 64(DI)
	VMOVUPS     Z6, 128(DI)
	VMOVUPS     Z7, 192(DI)
	ADDQ        $256, SI
	ADDQ        $256, DI
	DECQ        DX
	JNZ         loop

rest:
	TESTQ       $32, CX
	JZ          rest16
	VMOVUPS     (SI), Z4
	VMOVUPS     64(SI), Z5
	VFMADD213PS (DI), Z0, Z4
	VFMADD213PS 64(DI), Z0, Z5
	VMOVUPS     Z4, (DI)
	VMOVUPS     Z5, 64(DI)
	ADDQ        $128, SI
	ADDQ        $128, DI

rest16:
	TESTQ       $16, CX
	JZ          tail
	VMOVUPS     (SI), Z4
	VFMADD213PS (DI), Z0, Z4
	VMOVUPS     Z4, (DI)
	ADDQ        $64, SI
	ADDQ        $64, DI

// No masks here: what a mask has written cannot be handed on to the next load before it is in the cache.
tail:
	TESTQ       $8, CX
	JZ          tail4
	VMOVUPS     (SI), Y4
	VFMADD213PS (DI), Y0, Y4
	VMOVUPS     Y4, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DI

tail4:
	TESTQ       $4, CX
	JZ          tail2
	VMOVUPS     (SI), X4
	VFMADD213PS (DI), X0, X4
	VMOVUPS     X4, (DI)
	ADDQ        $16, SI
	ADDQ        $16, DI

tail2:
	TESTQ       $2, CX
	JZ          tail1
	VMOVSD      (SI), X4
	VMOVSD      (DI), X5
	VFMADD213PS X5, X0, X4
	VMOVSD      X4, (DI)
	ADDQ        $8, SI
	ADDQ        $8, DI

tail1:
	TESTQ       $1, CX
	JZ          done
	VMOVSS      (SI), X4
	VFMADD213SS (DI), X0, X4
	VMOVSS      X4, (DI)

done:
	VZEROUPPER
	RET

avx2:
	JMP axpyAVX2<>(SB)

plain:
	JMP ·axpyGo(SB)

// The same for AVX2.
// func dotAVX2(a, b *float32, n int) float32
TEXT dotAVX2<>(SB), NOSPLIT, $0-28
	MOVQ   a+0(FP), SI
	MOVQ   b+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	MOVQ   CX, DX
	SHRQ   $5, DX
	JZ     rest

loop:
	VMOVUPS     (SI), Y4
	VMOVUPS     32(SI), Y5
	VMOVUPS     64(SI), Y6
	VMOVUPS     96(SI), Y7
	VFMADD231PS (DI), Y4, Y0
	VFMADD231PS 32(DI), Y5, Y1
	VFMADD231PS 64(DI), Y6, Y2
	VFMADD231PS 96(DI), Y7, Y3
	ADDQ        $128, SI
	ADDQ        $128, DI
	DECQ        DX
	JNZ         loop

rest:
	TESTQ       $16, CX
	JZ          rest8
	VMOVUPS     (SI), Y4
	VMOVUPS     32(SI), Y5
	VFMADD231PS (DI), Y4, Y0
	VFMADD231PS 32(DI), Y5, Y1
	ADDQ        $64, SI
	ADDQ        $64, DI

rest8:
	TESTQ       $8, CX
	JZ          sum
	VMOVUPS     (SI), Y6
	VFMADD231PS (DI), Y6, Y2
	ADDQ        $32, SI
	ADDQ        $32, DI

sum:
	VADDPS       Y1, Y0, Y0
	VADDPS       Y3, Y2, Y2
	VADDPS       Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x0e, X0, X1
	VADDPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VADDSS       X1, X0, X0
	ANDQ         $7, CX
	JZ           done

tail:
	VMOVSS      (SI), X4
	VFMADD231SS (DI), X4, X0
	ADDQ        $4, SI
	ADDQ        $4, DI
	DECQ        CX
	JNZ         tail

done:
	VZEROUPPER
	VMOVSS X0, ret+24(FP)
	RET

// The same for AVX2.
// func axpyAVX2(a float32, x, y *float32, n int)
TEXT axpyAVX2<>(SB), NOSPLIT, $0-32
	VBROADCASTSS a+0(FP), Y0
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DI
	MOVQ         n+24(FP), CX
	MOVQ         CX, DX
	SHRQ         $5, DX
	JZ           rest

loop:
	VMOVUPS     (SI), Y4
	VMOVUPS     32(SI), Y5
	VMOVUPS     64(SI), Y6
	VMOVUPS     96(SI), Y7
	VFMADD213PS (DI), Y0, Y4
	VFMADD213PS 32(DI), Y0, Y5
	VFMADD213PS 64(DI), Y0, Y6
	VFMADD213PS 96(DI), Y0, Y7
	VMOVUPS     Y4, (DI)
	VMOVUPS     Y5, 32(DI)
	VMOVUPS     Y6, 64(DI)
	VMOVUPS     Y7, 96(DI)
	ADDQ        $128, SI
	ADDQ        $128, DI
	DECQ        DX
	JNZ         loop

rest:
	ANDQ $31, CX
	JZ   done

rest8:
	CMPQ        CX, $8
	JLT         tail
	VMOVUPS     (SI), Y4
	VFMADD213PS (DI), Y0, Y4
	VMOVUPS     Y4, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $8, CX
	JNZ         rest8
	JMP         done

tail:
	VMOVSS      (SI), X4
	VFMADD213SS (DI), X0, X4
	VMOVSS      X4, (DI)
	ADDQ        $4, SI
	ADDQ        $4, DI
	DECQ        CX
	JNZ         tail

done:
	VZEROUPPER
	RET
