#include "textflag.h"
#include "go_asm.h"

// The last block of a vector, as wide as a register, holds the last factors, the bias and zeros. With ones in place of
// the other vector's bias, it is added up and moved like the factors.
//
// Registers of both functions:
//	BX  the cell         R8  Rows      R11  ColumnRates    R12  where the last block begins, in bytes
//	CX  cells left       R9  Columns   R13  and DX count bytes
//	SI  row's vector     DI  column's vector               R15  3 * the column: rates are 12 bytes, slices 24
//	X10 is the sum of squares, X11 the step of rows, Z13 ones.

// While one cell is worked on, the vectors of the one FAR cells ahead are on their way into the first-level cache, or
// those of the next one if they have more than LONG bytes. Nothing may be read beyond the last cell.
#define FAR 4
#define LONG 512

// func descendScattered(f *Scattered, cells *Cell, n int) float64
TEXT ·descendScattered(SB), NOSPLIT, $0-32
	CMPQ         ·level(SB), $1
	JEQ          avx2
	JLT          plain
	MOVQ         f+0(FP), AX
	MOVQ         cells+8(FP), BX
	MOVQ         n+16(FP), CX
	MOVQ         Scattered_Rows(AX), R8
	MOVQ         Scattered_Columns(AX), R9
	MOVQ         Scattered_ColumnRates(AX), R11
	MOVQ         Scattered_Rank(AX), R12
	MOVQ         R12, DX
	ANDQ         $15, DX
	MOVQ         $1, R13
	SHLXQ        DX, R13, R13
	KMOVW        R13, K1                   // the bias
	SHRQ         $4, R12
	SHLQ         $6, R12
	MOVL         $0x3f800000, R13
	VMOVD        R13, X13
	VBROADCASTSS X13, Z13
	VMOVSS       (Scattered_RowRates+Rates_Step)(AX), X11
	VBROADCASTSS (Scattered_RowRates+Rates_Keep)(AX), Z12
	VBROADCASTSS (Scattered_RowRates+Rates_BiasKeep)(AX), Z16
	VBLENDMPS    Z16, Z12, K1, Z16
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
	LEAQ  (SI)(SI*2), SI
	LEAQ  (DI)(DI*2), DI
	MOVQ  (R8)(SI*8), SI
	MOVQ  (R9)(DI*8), DI
	MOVQ  R12, DX

fetch:
	PREFETCHT0 (SI)(DX*1)
	PREFETCHT0 (DI)(DX*1)
	SUBQ       $64, DX
	JGE        fetch

here:
	MOVL      Cell_Row(BX), SI
	MOVL      Cell_Column(BX), R15
	LEAQ      (SI)(SI*2), SI
	LEAQ      (R15)(R15*2), R15
	MOVQ      (R8)(SI*8), SI
	MOVQ      (R9)(R15*8), DI
	VMOVUPS   (SI)(R12*1), Z8
	VMOVUPS   (DI)(R12*1), Z9
	VBLENDMPS Z13, Z8, K1, Z18
	VBLENDMPS Z13, Z9, K1, Z19
	VMULPS    Z19, Z8, Z0                  // with the row's bias
	VADDPS    Z9, Z0, K1, Z0               // and the column's
	VXORPS    X1, X1, X1
	XORQ      R13, R13
	MOVQ      R12, DX
	SUBQ      $128, DX
	JLT       dotrest

dot2:
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     64(SI)(R13*1), Z5
	VFMADD231PS (DI)(R13*1), Z4, Z0
	VFMADD231PS 64(DI)(R13*1), Z5, Z1
	ADDQ        $128, R13
	CMPQ        R13, DX
	JLE         dot2

dotrest:
	CMPQ        R13, R12
	JGE         error
	VMOVUPS     (SI)(R13*1), Z4
	VFMADD231PS (DI)(R13*1), Z4, Z1

error:
	VADDPS        Z1, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X1, X0, X0
	VPERMILPS     $0x0e, X0, X1
	VADDPS        X1, X0, X0
	VMOVSHDUP     X0, X1
	VADDSS        X1, X0, X0
	VMOVSS        Cell_Value(BX), X4
	VSUBSS        X0, X4, X0
	VMULSS        X11, X0, X1              // the row's pull
	VMULSS        Rates_Step(R11)(R15*4), X0, X3 // the column's
	VCVTSS2SD     X0, X0, X0
	VFMADD231SD   X0, X0, X10
	VBROADCASTSS  X1, Z1
	VBROADCASTSS  X3, Z3
	VBROADCASTSS  Rates_Keep(R11)(R15*4), Z14
	VBROADCASTSS  Rates_BiasKeep(R11)(R15*4), Z17
	VBLENDMPS     Z17, Z14, K1, Z17
	VMULPS        Z16, Z8, Z8
	VMULPS        Z17, Z9, Z9
	VFMADD231PS   Z1, Z19, Z8
	VFMADD231PS   Z3, Z18, Z9
	VMOVUPS       Z8, (SI)(R12*1)
	VMOVUPS       Z9, (DI)(R12*1)
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
	VMULPS      Z14, Z5, Z2
	VMULPS      Z12, Z6, Z8
	VMULPS      Z14, Z7, Z9
	VFMADD231PS Z1, Z5, Z0
	VFMADD231PS Z3, Z4, Z2
	VFMADD231PS Z1, Z7, Z8
	VFMADD231PS Z3, Z6, Z9
	VMOVUPS     Z0, (SI)(R13*1)
	VMOVUPS     Z2, (DI)(R13*1)
	VMOVUPS     Z8, 64(SI)(R13*1)
	VMOVUPS     Z9, 64(DI)(R13*1)
	ADDQ        $128, R13
	CMPQ        R13, DX
	JLE         step

last:
	CMPQ        R13, R12
	JGE         next
	VMOVUPS     (SI)(R13*1), Z4
	VMOVUPS     (DI)(R13*1), Z5
	VMULPS      Z12, Z4, Z0
	VMULPS      Z14, Z5, Z2
	VFMADD231PS Z1, Z5, Z0
	VFMADD231PS Z3, Z4, Z2
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
	JMP descendScatteredAVX2<>(SB)

plain:
	JMP ·descendScatteredGo(SB)

DATA lanes<>+0(SB)/4, $0
DATA lanes<>+4(SB)/4, $1
DATA lanes<>+8(SB)/4, $2
DATA lanes<>+12(SB)/4, $3
DATA lanes<>+16(SB)/4, $4
DATA lanes<>+20(SB)/4, $5
DATA lanes<>+24(SB)/4, $6
DATA lanes<>+28(SB)/4, $7
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// The same for AVX2. Y15 is the mask of the bias.
// func descendScatteredAVX2(f *Scattered, cells *Cell, n int) float64
TEXT descendScatteredAVX2<>(SB), NOSPLIT, $0-32
	MOVQ         f+0(FP), AX
	MOVQ         cells+8(FP), BX
	MOVQ         n+16(FP), CX
	MOVQ         Scattered_Rows(AX), R8
	MOVQ         Scattered_Columns(AX), R9
	MOVQ         Scattered_ColumnRates(AX), R11
	MOVQ         Scattered_Rank(AX), R12
	MOVQ         R12, DX
	ANDQ         $7, DX
	VMOVD        DX, X15
	VPBROADCASTD X15, Y15
	VPCMPEQD     lanes<>(SB), Y15, Y15
	SHRQ         $3, R12
	SHLQ         $5, R12
	MOVL         $0x3f800000, R13
	VMOVD        R13, X13
	VBROADCASTSS X13, Y13
	VMOVSS       (Scattered_RowRates+Rates_Step)(AX), X11
	VBROADCASTSS (Scattered_RowRates+Rates_Keep)(AX), Y12
	VBROADCASTSS (Scattered_RowRates+Rates_BiasKeep)(AX), Y9
	VBLENDVPS    Y15, Y9, Y12, Y9
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
	LEAQ  (SI)(SI*2), SI
	LEAQ  (DI)(DI*2), DI
	MOVQ  (R8)(SI*8), SI
	MOVQ  (R9)(DI*8), DI
	MOVQ  R12, DX

fetch:
	PREFETCHT0 (SI)(DX*1)
	PREFETCHT0 (DI)(DX*1)
	SUBQ       $64, DX
	JGE        fetch

here:
	MOVL      Cell_Row(BX), SI
	MOVL      Cell_Column(BX), R15
	LEAQ      (SI)(SI*2), SI
	LEAQ      (R15)(R15*2), R15
	MOVQ      (R8)(SI*8), SI
	MOVQ      (R9)(R15*8), DI
	VMOVUPS   (SI)(R12*1), Y2
	VMOVUPS   (DI)(R12*1), Y3
	VBLENDVPS Y15, Y13, Y2, Y6
	VBLENDVPS Y15, Y13, Y3, Y7
	VMULPS    Y7, Y2, Y0
	VANDPS    Y15, Y3, Y1
	XORQ      R13, R13
	MOVQ      R12, DX
	SUBQ      $64, DX
	JLT       dotrest

dot2:
	VMOVUPS     (SI)(R13*1), Y4
	VMOVUPS     32(SI)(R13*1), Y5
	VFMADD231PS (DI)(R13*1), Y4, Y0
	VFMADD231PS 32(DI)(R13*1), Y5, Y1
	ADDQ        $64, R13
	CMPQ        R13, DX
	JLE         dot2

dotrest:
	CMPQ        R13, R12
	JGE         error
	VMOVUPS     (SI)(R13*1), Y4
	VFMADD231PS (DI)(R13*1), Y4, Y1

error:
	VADDPS       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x0e, X0, X1
	VADDPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VADDSS       X1, X0, X0
	VMOVSS       Cell_Value(BX), X4
	VSUBSS       X0, X4, X0
	VMULSS       X11, X0, X1
	VMULSS       Rates_Step(R11)(R15*4), X0, X8
	VCVTSS2SD    X0, X0, X0
	VFMADD231SD  X0, X0, X10
	VBROADCASTSS X1, Y1
	VBROADCASTSS X8, Y8
	VBROADCASTSS Rates_Keep(R11)(R15*4), Y14
	VBROADCASTSS Rates_BiasKeep(R11)(R15*4), Y5
	VBLENDVPS    Y15, Y5, Y14, Y5
	VMULPS       Y9, Y2, Y2
	VMULPS       Y5, Y3, Y3
	VFMADD231PS  Y1, Y7, Y2
	VFMADD231PS  Y8, Y6, Y3
	VMOVUPS      Y2, (SI)(R12*1)
	VMOVUPS      Y3, (DI)(R12*1)
	XORQ         R13, R13

step:
	CMPQ        R13, R12
	JGE         next
	VMOVUPS     (SI)(R13*1), Y4
	VMOVUPS     (DI)(R13*1), Y5
	VMULPS      Y12, Y4, Y0
	VMULPS      Y14, Y5, Y2
	VFMADD231PS Y1, Y5, Y0
	VFMADD231PS Y8, Y4, Y2
	VMOVUPS     Y0, (SI)(R13*1)
	VMOVUPS     Y2, (DI)(R13*1)
	ADDQ        $32, R13
	JMP         step

next:
	ADDQ $Cell__size, BX
	DECQ CX
	JNZ  cell
	VZEROUPPER
	VMOVSD X10, ret+24(FP)
	RET
