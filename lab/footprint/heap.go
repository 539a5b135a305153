package main

import "github.com/tierml/tierml/internal/heap"

// Builds from before internal/heap leave this file out: their agents use Go's default garbage collection.
func init() { heap.Tune() }
