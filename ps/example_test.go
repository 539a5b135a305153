package ps_test

import (
	"fmt"

	"github.com/tierml/tierml/ps"
)

// Updates are added in fixed point, so their sum does not depend on their order.
func ExampleAddFixed() {
	a, _ := ps.ToFixed(0.1)
	b, _ := ps.ToFixed(0.2)
	c, _ := ps.ToFixed(-0.3)
	left, _ := ps.AddFixed(a, b)
	left, _ = ps.AddFixed(left, c)
	right, _ := ps.AddFixed(b, c)
	right, _ = ps.AddFixed(a, right)
	fmt.Println(left == right)
	// Output: true
}

// Initial values depend only on the seed and the row, so every machine computes the same ones.
func ExampleInitRow() {
	table := ps.Table{Rows: 1000, Cols: 4, Init: ps.Init{Low: -1, High: 1}}
	one, other := make([]float32, 4), make([]float32, 4)
	ps.InitRow(7, table, 0, 42, one)
	ps.InitRow(7, table, 0, 42, other)
	fmt.Println(one[0] == other[0], one[0] != one[1])
	// Output: true true
}
