package docstest

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"unicode"
)

// mostWords bounds docs/*.md together: say a thing once, and link to it.
const mostWords = 33_000

func TestPagesStayShort(t *testing.T) {
	repository := os.DirFS("../..")
	pages, err := fs.Glob(repository, "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	total := 0
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			t.Fatal(err)
		}
		total += words(string(text))
	}
	if total > mostWords {
		t.Errorf("docs/*.md have %d words, more than %d: remove what is said twice", total, mostWords)
	}
}

// words counts words with a letter or a digit, not table bars and dashes.
func words(text string) (n int) {
	for _, word := range strings.Fields(text) {
		if strings.IndexFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 {
			n++
		}
	}
	return n
}
