#include "textflag.h"
#include "go_asm.h"

// Registers of both functions:
//	BX  the cell         R8   Rows     R10  RowBias     R12  bytes of a vector
//	CX  cells left       R9   Columns  R11  ColumnBias
//	SI  row's vector     DI   column's vector
//	R13 and DX count numbers; X10 is the sum of squares.

// While one cell is worked on, the vectors of a later one are on their way into the first-level cache: short vectors
// FAR cells ahead, vectors of more than LONG bytes one cell ahead. AX is how far, in bytes. Nothing may be read
// beyond the last cell, so the last ones go without.
#define FAR 4
#define LONG 512

// func descend(f *Factors, cells *Cell, n int) float64
TEXT ·descend(SB), NOSPLIT, $0-32
	CMPQ   ·level(SB), $1
	JEQ    avx2
	JLT    plain
	MOVQ         f+0(FP), AX
	MOVQ         cells+8(FP), BX
	MOVQ         n+16(FP), CX
	MOVQ         Factors_Rows(AX), R8
	MOVQ         Factors_Columns(AX), R9
	MOVQ         Factors_RowBias(AX), R10
	MOVQ         Factors_ColumnBias(AX), R11
	MOVQ         Factors_Stride(AX), R12
	SHLQ         $2, R12
	VBROADCASTSS Factors_Keep(AX), Z12
	VMOVSS       Factors_Step(AX), X11
	VMOVSS       Factors_BiasKeep(AX), X13
	VXORPD       X10, X10, X10
	MOVQ         $(FAR*Cell__size), AX
	CMPQ         R12, $LONG
	JLE          cell
	MOVQ         $Cell__size, AX

cell:
	CMPQ  CX, $FAR
	JLE   here
	MOVL  Cell_Row(BX)(AX*1), SI
	MOVL  Cell_Column(BX)(AX*1), DI
	LEAQ  (R11)(DI*4), DX
	PREFETCHT0 (DX)
	IMULQ R12, SI
	IMULQ R12, DI
	ADDQ  R8, SI
	ADDQ  R9, DI
	MOVQ  R12, DX

fetch:
	PREFETCHT0 -64(SI)(DX*1)
	PREFETCHT0 -64(DI)(DX*1)
	SUBQ       $64, DX
	JNZ        fetch

here:
	MOVL   Cell_Row(BX), R14
	MOVL   Cell_Column(BX), R15
	MOVQ   R14, SI
	MOVQ   R15, DI
	IMULQ  R12, SI
	IMULQ  R12, DI
	ADDQ   R8, SI
	ADDQ   R9, DI
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	XORQ   R13, R13
	MOVQ   R12, DX
	SUBQ   $256, DX
	JLT    dotrest

dot4:
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     64(SI)(R13*1), Z5
	VMOVUPS     128(SI)(R13*1), Z6
	VMOVUPS     192(SI)(R13*1), Z7
	VFMADD231PS (DI)(R13*1), Z4, Z0
	VFMADD231PS 64(DI)(R13*1), Z5, Z1
	VFMADD231PS 128(DI)(R13*1), Z6, Z2
	VFMADD231PS 192(DI)(R13*1), Z7, Z3
	ADDQ        $256, R13
	CMPQ        R13, DX
	JLE         dot4

dotrest:
	ADDQ $128, DX
	CMPQ R13, DX
	JGT  dotlast
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     64(SI)(R13*1), Z5
	VFMADD231PS (DI)(R13*1), Z4, Z0
	VFMADD231PS 64(DI)(R13*1), Z5, Z1
	ADDQ        $128, R13

dotlast:
	CMPQ        R13, R12
	JGE         error
	VMOVUPS     (SI)(R13*1), Z4
	VFMADD231PS (DI)(R13*1), Z4, Z2

error:
	VADDPS        Z1, Z0, Z0
	VADDPS        Z3, Z2, Z2
	VADDPS        Z2, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X1, X0, X0
	VPERMILPS     $0x0e, X0, X1
	VADDPS        X1, X0, X0
	VMOVSHDUP     X0, X1
	VADDSS        X1, X0, X0
	VMOVSS        (R10)(R14*4), X2
	VMOVSS        (R11)(R15*4), X3
	VMOVSS        Cell_Value(BX), X4
	VSUBSS        X2, X4, X4
	VSUBSS        X3, X4, X4
	VSUBSS        X0, X4, X0               // the error
	VMULSS        X11, X0, X1              // the pull
	VCVTSS2SD     X0, X0, X0
	VFMADD231SD   X0, X0, X10
	VFMADD213SS   X1, X13, X2
	VFMADD213SS   X1, X13, X3
	VMOVSS        X2, (R10)(R14*4)
	VMOVSS        X3, (R11)(R15*4)
	VBROADCASTSS  X1, Z1
	XORQ          R13, R13
	MOVQ          R12, DX
	SUBQ          $128, DX
	JLT           last

step:
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     (DI)(R13*1), Z5
	VMOVUPS     64(SI)(R13*1), Z6
	VMOVUPS     64(DI)(R13*1), Z7
	VMULPS      Z12, Z4, Z0
	VMULPS      Z12, Z5, Z2
	VMULPS      Z12, Z6, Z3
	VMULPS      Z12, Z7, Z8
	VFMADD231PS Z1, Z5, Z0
	VFMADD231PS Z1, Z4, Z2
	VFMADD231PS Z1, Z7, Z3
	VFMADD231PS Z1, Z6, Z8
	VMOVUPS     Z0, (SI)(R13*1)
	VMOVUPS     Z2, (DI)(R13*1)
	VMOVUPS     Z3, 64(SI)(R13*1)
	VMOVUPS     Z8, 64(DI)(R13*1)
	ADDQ        $128, R13
	CMPQ        R13, DX
	JLE         step

last:
	CMPQ        R13, R12
	JGE         next
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     (DI)(R13*1), Z5
	VMULPS      Z12, Z4, Z0
	VMULPS      Z12, Z5, Z2
	VFMADD231PS Z1, Z5, Z0
	VFMADD231PS Z1, Z4, Z2
	VMOVUPS     Z0, (SI)(R13*1)
	VMOVUPS     Z2, (DI)(R13*1)

next:
	ADDQ $Cell__size, BX
	DECQ CX
	JNZ  cell
	VZEROUPPER
	VMOVSD X10, ret+24(FP)
	RET

avx2:
	JMP descendAVX2<>(SB)

plain:
	JMP ·descendGo(SB)

// The same for AVX2.
// func descendAVX2(f *Factors, cells *Cell, n int) float64
TEXT descendAVX2<>(SB), NOSPLIT, $0-32
	MOVQ         f+0(FP), AX
	MOVQ         cells+8(FP), BX
	MOVQ         n+16(FP), CX
	MOVQ         Factors_Rows(AX), R8
	MOVQ         Factors_Columns(AX), R9
	MOVQ         Factors_RowBias(AX), R10
	MOVQ         Factors_ColumnBias(AX), R11
	MOVQ         Factors_Stride(AX), R12
	SHLQ         $2, R12
	VBROADCASTSS Factors_Keep(AX), Y12
	VMOVSS       Factors_Step(AX), X11
	VMOVSS       Factors_BiasKeep(AX), X13
	VXORPD       X10, X10, X10
	MOVQ         $(FAR*Cell__size), AX
	CMPQ         R12, $LONG
	JLE          cell
	MOVQ         $Cell__size, AX

cell:
	CMPQ  CX, $FAR
	JLE   here
	MOVL  Cell_Row(BX)(AX*1), SI
	MOVL  Cell_Column(BX)(AX*1), DI
	LEAQ  (R11)(DI*4), DX
	PREFETCHT0 (DX)
	IMULQ R12, SI
	IMULQ R12, DI
	ADDQ  R8, SI
	ADDQ  R9, DI
	MOVQ  R12, DX

fetch:
	PREFETCHT0 -64(SI)(DX*1)
	PREFETCHT0 -64(DI)(DX*1)
	SUBQ       $64, DX
	JNZ        fetch

here:
	MOVL   Cell_Row(BX), R14
	MOVL   Cell_Column(BX), R15
	MOVQ   R14, SI
	MOVQ   R15, DI
	IMULQ  R12, SI
	IMULQ  R12, DI
	ADDQ   R8, SI
	ADDQ   R9, DI
	VXORPS X0, X0, X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	XORQ   R13, R13
	MOVQ   R12, DX
	SUBQ   $128, DX
	JLT    dotlast

dot4:
	VMOVUPS     (SI)(R13*1), Y4
	VMOVUPS     32(SI)(R13*1), Y5
	VMOVUPS     64(SI)(R13*1), Y6
	VMOVUPS     96(SI)(R13*1), Y7
	VFMADD231PS (DI)(R13*1), Y4, Y0
	VFMADD231PS 32(DI)(R13*1), Y5, Y1
	VFMADD231PS 64(DI)(R13*1), Y6, Y2
	VFMADD231PS 96(DI)(R13*1), Y7, Y3
	ADDQ        $128, R13
	CMPQ        R13, DX
	JLE         dot4

dotlast:
	CMPQ        R13, R12
	JGE         error
	VMOVUPS     (SI)(R13*1), Y4
	VMOVUPS     32(SI)(R13*1), Y5
	VFMADD231PS (DI)(R13*1), Y4, Y0
	VFMADD231PS 32(DI)(R13*1), Y5, Y1

error:
	VADDPS       Y1, Y0, Y0
	VADDPS       Y3, Y2, Y2
	VADDPS       Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x0e, X0, X1
	VADDPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VADDSS       X1, X0, X0
	VMOVSS       (R10)(R14*4), X2
	VMOVSS       (R11)(R15*4), X3
	VMOVSS       Cell_Value(BX), X4
	VSUBSS       X2, X4, X4
	VSUBSS       X3, X4, X4
	VSUBSS       X0, X4, X0
	VMULSS       X11, X0, X1
	VCVTSS2SD    X0, X0, X0
	VFMADD231SD  X0, X0, X10
	VFMADD213SS  X1, X13, X2
	VFMADD213SS  X1, X13, X3
	VMOVSS       X2, (R10)(R14*4)
	VMOVSS       X3, (R11)(R15*4)
	VBROADCASTSS X1, Y1
	XORQ         R13, R13

step:
	VMOVUPS     (SI)(R13*1), Y4
	VMOVUPS     (DI)(R13*1), Y5
	VMOVUPS     32(SI)(R13*1), Y6
	VMOVUPS     32(DI)(R13*1), Y7
	VMULPS      Y12, Y4, Y0
	VMULPS      Y12, Y5, Y2
	VMULPS      Y12, Y6, Y3
	VMULPS      Y12, Y7, Y8
	VFMADD231PS Y1, Y5, Y0
	VFMADD231PS Y1, Y4, Y2
	VFMADD231PS Y1, Y7, Y3
	VFMADD231PS Y1, Y6, Y8
	VMOVUPS     Y0, (SI)(R13*1)
	VMOVUPS     Y2, (DI)(R13*1)
	VMOVUPS     Y3, 32(SI)(R13*1)
	VMOVUPS     Y8, 32(DI)(R13*1)
	ADDQ        $64, R13
	CMPQ        R13, R12
	JLT         step
	ADDQ        $Cell__size, BX
	DECQ        CX
	JNZ         cell
	VZEROUPPER
	VMOVSD      X10, ret+24(FP)
	RET
