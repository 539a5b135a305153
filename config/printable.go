package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/terminal"
)

// unprintable objects to names and texts with characters that would steer the terminals on which they are shown.
func unprintable(file string, node *yaml.Node) (faults Faults) {
	if terminal.Unsafe(node.Value) {
		faults = append(faults, Fault{File: file, Line: node.Line, Column: node.Column, Problem: fmt.Sprintf("%+q has control characters", node.Value),
			Instead: "write it without them"})
	}
	for _, below := range node.Content { // aliases are not followed: what they stand for has its own place
		faults = append(faults, unprintable(file, below)...)
	}
	return faults
}
