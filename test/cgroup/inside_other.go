//go:build !linux

package main

func inside() {}
