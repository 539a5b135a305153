package apps

import (
	"fmt"
	"os"
	"strings"

	"github.com/tierml/tierml/apps/model"
)

// Summarizer is a Program that can describe a model's contents in plain text, for people: such as the words of a topic.
type Summarizer interface {
	// Summary returns a file name, such as "topics.txt", and the file's contents.
	Summary(m model.Model) (name string, content []byte, err error)
}

// Doubtful is a Program that may find its data suspicious, such as ratings that are all the same.
type Doubtful interface {
	// Doubts are shown to people before training.
	Doubts() []string
}

// Doubts returns what a program finds suspicious.
func Doubts(program Program) []string {
	if d, can := program.(Doubtful); can {
		return d.Doubts()
	}
	return nil
}

// Save writes a model to a file and, if the program can summarise it, a summary next to it: model.topics.txt for model.safetensors.
func Save(path string, program Program, m model.Model) error {
	if err := m.Save(path); err != nil {
		return err
	}
	s, ok := program.(Summarizer)
	if !ok {
		return nil
	}
	name, content, err := s.Summary(m)
	if err == nil {
		err = os.WriteFile(strings.TrimSuffix(path, ".safetensors")+"."+name, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("save the model's summary: %w", err)
	}
	return nil
}
