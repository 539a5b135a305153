package main

import "github.com/tierml/tierml/internal/heap"

// Builds of before internal/heap leave this file out: their agents collect garbage as Go does by itself.
func init() { heap.Tune() }
