//go:build !race

package confine

const raced = false
