package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/terminal"
)

// unprintable rejects names and texts with control characters, which could manipulate the terminals that show them.
func unprintable(file string, node *yaml.Node) (faults Faults) {
	if terminal.Unsafe(node.Value) {
		faults = append(faults, Fault{File: file, Line: node.Line, Column: node.Column, Problem: fmt.Sprintf("%+q has control characters", node.Value),
			Instead: "write it without them"})
	}
	for _, below := range node.Content { // aliases are not followed: their targets are checked where they are defined
		faults = append(faults, unprintable(file, below)...)
	}
	return faults
}
