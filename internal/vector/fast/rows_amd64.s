#include "textflag.h"

// Columns are taken 64 at a time, the rest 16 at a time; for each such tile all rows go by once. A tile of a sum stays in
// registers meanwhile. Registers: SI the matrix at the tile, DX its width in bytes, R8 row numbers, R9 factors, CX how
// many rows are left, R11 columns that are left, DI the dense vector at the tile.

// func sumRows(sum *float32, width int, matrix *float32, rows *uint32, factors *float32, n int)
TEXT ·sumRows(SB), NOSPLIT, $0-48
	CMPQ ·level(SB), $1
	JEQ  avx2
	JLT  plain
	MOVQ sum+0(FP), DI
	MOVQ width+8(FP), R11
	MOVQ matrix+16(FP), SI
	LEAQ (R11*4), DX

tile:
	MOVQ rows+24(FP), R8
	MOVQ factors+32(FP), R9
	MOVQ n+40(FP), CX
	TESTQ CX, CX
	JZ   done
	CMPQ R11, $64
	JLT  narrow
	VMOVUPS 0(DI), Z0
	VMOVUPS 64(DI), Z1
	VMOVUPS 128(DI), Z2
	VMOVUPS 192(DI), Z3

wideRow:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Z8
	VFMADD231PS 0(SI)(AX*1), Z8, Z0
	VFMADD231PS 64(SI)(AX*1), Z8, Z1
	VFMADD231PS 128(SI)(AX*1), Z8, Z2
	VFMADD231PS 192(SI)(AX*1), Z8, Z3
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  wideRow
	VMOVUPS Z0, 0(DI)
	VMOVUPS Z1, 64(DI)
	VMOVUPS Z2, 128(DI)
	VMOVUPS Z3, 192(DI)
	ADDQ $256, DI
	ADDQ $256, SI
	SUBQ $64, R11
	JNZ  tile
	JMP  done

// A narrow tile has four sums, which do not wait for each other, of every fourth row.
narrow:
	CMPQ R11, $16
	JLT  done
	VMOVUPS 0(DI), Z0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	SUBQ $4, CX
	JLT  fewRows

rows:
	MOVL  0(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 0(R9), Z8
	VFMADD231PS 0(SI)(AX*1), Z8, Z0
	MOVL  4(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 4(R9), Z9
	VFMADD231PS 0(SI)(AX*1), Z9, Z1
	MOVL  8(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 8(R9), Z10
	VFMADD231PS 0(SI)(AX*1), Z10, Z2
	MOVL  12(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 12(R9), Z11
	VFMADD231PS 0(SI)(AX*1), Z11, Z3
	ADDQ $16, R8
	ADDQ $16, R9
	SUBQ $4, CX
	JGE  rows

fewRows:
	ADDQ $4, CX
	JZ   narrowSum

row:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Z8
	VFMADD231PS 0(SI)(AX*1), Z8, Z0
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  row

narrowSum:
	VADDPS Z1, Z0, Z0
	VADDPS Z3, Z2, Z2
	VADDPS Z2, Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $16, R11
	JNZ  tile

done:
	VZEROUPPER
	RET

avx2:
	JMP sumRowsAVX2<>(SB)

plain:
	JMP ·sumRowsGo(SB)

// func addToRows(matrix *float32, rows *uint32, factors *float32, n int, x *float32, width int)
TEXT ·addToRows(SB), NOSPLIT, $0-48
	CMPQ ·level(SB), $1
	JEQ  avx2
	JLT  plain
	MOVQ matrix+0(FP), SI
	MOVQ x+32(FP), DI
	MOVQ width+40(FP), R11
	LEAQ (R11*4), DX

tile:
	MOVQ rows+8(FP), R8
	MOVQ factors+16(FP), R9
	MOVQ n+24(FP), CX
	TESTQ CX, CX
	JZ   done
	CMPQ R11, $64
	JLT  narrow
	VMOVUPS 0(DI), Z0
	VMOVUPS 64(DI), Z1
	VMOVUPS 128(DI), Z2
	VMOVUPS 192(DI), Z3

wideRow:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Z15
	VMOVUPS 0(SI)(AX*1), Z8
	VMOVUPS 64(SI)(AX*1), Z9
	VMOVUPS 128(SI)(AX*1), Z10
	VMOVUPS 192(SI)(AX*1), Z11
	VFMADD231PS Z0, Z15, Z8
	VFMADD231PS Z1, Z15, Z9
	VFMADD231PS Z2, Z15, Z10
	VFMADD231PS Z3, Z15, Z11
	VMOVUPS Z8, 0(SI)(AX*1)
	VMOVUPS Z9, 64(SI)(AX*1)
	VMOVUPS Z10, 128(SI)(AX*1)
	VMOVUPS Z11, 192(SI)(AX*1)
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  wideRow
	ADDQ $256, DI
	ADDQ $256, SI
	SUBQ $64, R11
	JNZ  tile
	JMP  done

narrow:
	CMPQ R11, $16
	JLT  done
	VMOVUPS 0(DI), Z0

row:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Z15
	VMOVUPS 0(SI)(AX*1), Z8
	VFMADD231PS Z0, Z15, Z8
	VMOVUPS Z8, 0(SI)(AX*1)
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  row
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $16, R11
	JNZ  tile

done:
	VZEROUPPER
	RET

avx2:
	JMP addToRowsAVX2<>(SB)

plain:
	JMP ·addToRowsGo(SB)

// The same for AVX2.
// func sumRowsAVX2(sum *float32, width int, matrix *float32, rows *uint32, factors *float32, n int)
TEXT sumRowsAVX2<>(SB), NOSPLIT, $0-48
	MOVQ sum+0(FP), DI
	MOVQ width+8(FP), R11
	MOVQ matrix+16(FP), SI
	LEAQ (R11*4), DX

tile:
	MOVQ rows+24(FP), R8
	MOVQ factors+32(FP), R9
	MOVQ n+40(FP), CX
	TESTQ CX, CX
	JZ   done
	CMPQ R11, $64
	JLT  narrow
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

wideRow:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Y8
	VFMADD231PS 0(SI)(AX*1), Y8, Y0
	VFMADD231PS 32(SI)(AX*1), Y8, Y1
	VFMADD231PS 64(SI)(AX*1), Y8, Y2
	VFMADD231PS 96(SI)(AX*1), Y8, Y3
	VFMADD231PS 128(SI)(AX*1), Y8, Y4
	VFMADD231PS 160(SI)(AX*1), Y8, Y5
	VFMADD231PS 192(SI)(AX*1), Y8, Y6
	VFMADD231PS 224(SI)(AX*1), Y8, Y7
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  wideRow
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $256, SI
	SUBQ $64, R11
	JNZ  tile
	JMP  done

// A narrow tile has two sums, which do not wait for each other, of every second row.
narrow:
	CMPQ R11, $16
	JLT  done
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VXORPS X2, X2, X2
	VXORPS X3, X3, X3
	SUBQ $2, CX
	JLT  fewRows

rows:
	MOVL  0(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 0(R9), Y8
	VFMADD231PS 0(SI)(AX*1), Y8, Y0
	VFMADD231PS 32(SI)(AX*1), Y8, Y1
	MOVL  4(R8), AX
	IMULQ DX, AX
	VBROADCASTSS 4(R9), Y9
	VFMADD231PS 0(SI)(AX*1), Y9, Y2
	VFMADD231PS 32(SI)(AX*1), Y9, Y3
	ADDQ $8, R8
	ADDQ $8, R9
	SUBQ $2, CX
	JGE  rows

fewRows:
	ADDQ $2, CX
	JZ   narrowSum

row:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Y8
	VFMADD231PS 0(SI)(AX*1), Y8, Y0
	VFMADD231PS 32(SI)(AX*1), Y8, Y1
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  row

narrowSum:
	VADDPS Y2, Y0, Y0
	VADDPS Y3, Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $16, R11
	JNZ  tile

done:
	VZEROUPPER
	RET

// The same for AVX2.
// func addToRowsAVX2(matrix *float32, rows *uint32, factors *float32, n int, x *float32, width int)
TEXT addToRowsAVX2<>(SB), NOSPLIT, $0-48
	MOVQ matrix+0(FP), SI
	MOVQ x+32(FP), DI
	MOVQ width+40(FP), R11
	LEAQ (R11*4), DX

tile:
	MOVQ rows+8(FP), R8
	MOVQ factors+16(FP), R9
	MOVQ n+24(FP), CX
	TESTQ CX, CX
	JZ   done
	CMPQ R11, $64
	JLT  narrow
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

wideRow:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Y15
	VMOVUPS 0(SI)(AX*1), Y8
	VMOVUPS 32(SI)(AX*1), Y9
	VMOVUPS 64(SI)(AX*1), Y10
	VMOVUPS 96(SI)(AX*1), Y11
	VFMADD231PS Y0, Y15, Y8
	VFMADD231PS Y1, Y15, Y9
	VFMADD231PS Y2, Y15, Y10
	VFMADD231PS Y3, Y15, Y11
	VMOVUPS Y8, 0(SI)(AX*1)
	VMOVUPS Y9, 32(SI)(AX*1)
	VMOVUPS Y10, 64(SI)(AX*1)
	VMOVUPS Y11, 96(SI)(AX*1)
	VMOVUPS 128(SI)(AX*1), Y8
	VMOVUPS 160(SI)(AX*1), Y9
	VMOVUPS 192(SI)(AX*1), Y10
	VMOVUPS 224(SI)(AX*1), Y11
	VFMADD231PS Y4, Y15, Y8
	VFMADD231PS Y5, Y15, Y9
	VFMADD231PS Y6, Y15, Y10
	VFMADD231PS Y7, Y15, Y11
	VMOVUPS Y8, 128(SI)(AX*1)
	VMOVUPS Y9, 160(SI)(AX*1)
	VMOVUPS Y10, 192(SI)(AX*1)
	VMOVUPS Y11, 224(SI)(AX*1)
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  wideRow
	ADDQ $256, DI
	ADDQ $256, SI
	SUBQ $64, R11
	JNZ  tile
	JMP  done

narrow:
	CMPQ R11, $16
	JLT  done
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1

row:
	MOVL  (R8), AX
	IMULQ DX, AX
	VBROADCASTSS (R9), Y15
	VMOVUPS 0(SI)(AX*1), Y8
	VMOVUPS 32(SI)(AX*1), Y9
	VFMADD231PS Y0, Y15, Y8
	VFMADD231PS Y1, Y15, Y9
	VMOVUPS Y8, 0(SI)(AX*1)
	VMOVUPS Y9, 32(SI)(AX*1)
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  row
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $16, R11
	JNZ  tile

done:
	VZEROUPPER
	RET
