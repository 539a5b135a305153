package docstest

import (
	"os"
	"strings"
	"testing"
)

// A test executes each example on the pages, or blocks.txt says why it cannot.
func TestBlocks(t *testing.T) {
	listText, err := os.ReadFile("blocks.txt")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := checkBlocks(os.DirFS("../.."), string(listText))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestBlocksOfAPage(t *testing.T) {
	blocks := Blocks("a.md", "# A\n\n```sh\nx\ny\n```\n- item\n\n  ```\n  z\n    w\n  ```\n")
	if len(blocks) != 2 || blocks[0].Text != "x\ny\n" || blocks[0].Language != "sh" || blocks[0].Line != 4 || blocks[1].Text != "z\n  w\n" {
		t.Errorf("blocks are %+v", blocks)
	}
}

func TestListOfBlocks(t *testing.T) {
	page := "```sh\ntierml run x\n```\n```sh\nmake build\n```\n```\nwords\n```\n"
	whole := "docs/a.md | sh | tierml | TestX\ndocs/a.md | sh | make | not executed: another test runs make build\ndocs/a.md |  | | x/x_test.go\ndocs/b.md | sh | | not executed: it is not a heading either\n"
	for name, c := range map[string]struct{ list, want string }{
		"complete":       {whole, ""},
		"no row":         {strings.Replace(whole, "| make |", "| maker |", 1), `does not say what executes the block "make build" (sh)`},
		"no block":       {whole + "docs/a.md | go | | TestX\n", "no page has such a block"},
		"no test":        {strings.Replace(whole, "TestX", "TestY", 1), "there is no test TestY"},
		"no reason":      {strings.Replace(whole, "another test runs make build", "?", 1), "say which test executes it"},
		"longest counts": {whole + "docs/a.md | sh | make b | TestX\n", "no page has such a block"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := checkBlocks(small(page), c.list)
			var said string
			for _, f := range faults {
				said += f.String() + "\n"
			}
			if err != nil {
				said += err.Error()
			}
			if c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}
