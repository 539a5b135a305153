package docstest

import (
	"fmt"
	"io/fs"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Page, Language string
	Line           int // of its first line of text
	Text           string
}

// String returns "docs/x.md:7".
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Blocks returns a page's blocks, in order.
func Blocks(page, text string) (all []Block) {
	inBlock, indent := false, ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		fence, isFence := strings.CutPrefix(trimmed, "```")
		switch {
		case isFence && !inBlock:
			indent, _, _ = strings.Cut(line, "```")
			all = append(all, Block{Page: page, Language: fence, Line: number + 1})
			inBlock = true
		case isFence:
			inBlock = false
		case inBlock:
			all[len(all)-1].Text += strings.TrimPrefix(line, indent)
		}
	}
	return all
}

// listFile says what executes each block; its head documents the format.
const listFile = "internal/docstest/blocks.txt"

// executed says what executes the matching blocks.
type executed struct {
	line                   int
	page, language, begins string
	by                     string // a test, or a file of the repository
	reason                 string // why nothing executes it
	matched                int
}

// list reads the text of listFile.
func list(text string) (rows []*executed, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.SplitN(line, "|", 4)
		if len(columns) != 4 {
			return nil, fmt.Errorf("blocks.txt:%d: want PAGE | LANGUAGE | BEGINNING | WHAT", i+1)
		}
		row := &executed{line: i + 1, page: strings.TrimSpace(columns[0]), language: strings.TrimSpace(columns[1]), begins: strings.TrimSpace(columns[2])}
		what := strings.TrimSpace(columns[3])
		if reason, not := strings.CutPrefix(what, "not executed: "); not {
			row.reason = reason
		} else {
			row.by = what
		}
		if row.by == "" && len(row.reason) < 20 {
			return nil, fmt.Errorf("blocks.txt:%d: say which test executes it, or why nothing does", i+1)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// matching returns the row for a block: of the matching ones, the one with the longest beginning.
func matching(rows []*executed, b Block) (best *executed) {
	for _, row := range rows {
		if row.page == b.Page && row.language == b.Language && strings.HasPrefix(strings.TrimSpace(b.Text), row.begins) &&
			(best == nil || len(row.begins) > len(best.begins)) {
			best = row
		}
	}
	return best
}

// ExecutedBy returns the blocks that a test executes according to the list, by page.
func ExecutedBy(repository fs.FS, test string) (map[string][]Block, error) {
	f, err := gather(repository)
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	listText, err := fs.ReadFile(repository, listFile)
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	rows, err := list(string(listText))
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	found := map[string][]Block{}
	for _, page := range f.pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, fmt.Errorf("docstest: %w", err)
		}
		for _, b := range Blocks(page, string(text)) {
			if row := matching(rows, b); row != nil && row.by == test {
				found[page] = append(found[page], b)
			}
		}
	}
	return found, nil
}

// checkBlocks requires a row for each block, a block for each row, and the tests that rows name.
func checkBlocks(repository fs.FS, listText string) ([]Fault, error) {
	f, err := gather(repository)
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	rows, err := list(listText)
	if err != nil {
		return nil, fmt.Errorf("docstest: %w", err)
	}
	var faults []Fault
	for _, page := range f.pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, fmt.Errorf("docstest: %w", err)
		}
		for _, b := range Blocks(page, string(text)) {
			first, _, _ := strings.Cut(b.Text, "\n")
			if row := matching(rows, b); row == nil {
				faults = append(faults, Fault{b.Page, b.Line, fmt.Sprintf("%s does not say what executes the block %q (%s)", listFile, first, b.Language)})
			} else {
				row.matched++
			}
		}
	}
	for _, row := range rows {
		if row.matched == 0 {
			faults = append(faults, Fault{listFile, row.line, "no page has such a block"})
		}
		if row.by != "" && !f.tests[row.by] && !f.exists(row.by) {
			faults = append(faults, Fault{listFile, row.line, "there is no test " + row.by})
		}
	}
	return faults, nil
}
