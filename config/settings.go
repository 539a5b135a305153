package config

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// CheckMapping reports what keeps a text from being one YAML mapping, like a file of settings; instead says what to write. It uses the
// words of a job file's faults.
func CheckMapping(path string, text []byte, problem, instead string) error {
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return syntaxFault(path, text, err)
	}
	if len(node.Content) == 0 {
		return nil
	}
	root := node.Content[0]
	if root.Kind != yaml.MappingNode {
		return Faults{{File: path, Line: root.Line, Column: root.Column, Problem: problem, Instead: instead}}
	}
	err := root.Decode(&map[string]any{})
	if types, ok := errors.AsType[*yaml.TypeError](err); ok { // a duplicate key
		err = errors.New("yaml: " + strings.Join(types.Errors, "; "))
	}
	if err != nil {
		return syntaxFault(path, text, err)
	}
	return nil
}
