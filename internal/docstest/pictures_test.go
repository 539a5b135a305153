package docstest

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Drawings are well-formed, have a text alternative, and can be read on light and dark pages.
func TestPictures(t *testing.T) {
	files, err := filepath.Glob("../../docs/images/*.svg")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pictures: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := xml.NewDecoder(strings.NewReader(string(text))); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		for _, part := range []string{"viewBox=", "<title", "<desc", "prefers-color-scheme:dark"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %s", file, part)
			}
		}
	}
}
