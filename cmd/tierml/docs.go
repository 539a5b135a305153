package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/docs"
)

func newDocsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "docs [PAGE]",
		Short: "Show a page of the documentation",
		Long: `It prints this version's pages as Markdown, without a network. Without PAGE, it lists them. job.schema.json is the schema of
job files, for editors.`,
		Example: "  tierml docs\n  tierml docs programs | less",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pageNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range pageNames() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-16s %s\n", name, titleOf(name))
				}
				return nil
			}
			text, err := readPage(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// pageNames returns the names of the pages without extensions, in order.
func pageNames() (names []string) {
	files, _ := fs.Glob(docs.Pages, "*")
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".md"))
	}
	return names
}

func readPage(name string) ([]byte, error) {
	for _, file := range []string{name, name + ".md"} {
		if text, err := docs.Pages.ReadFile(file); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("there is no page %q%s; `tierml docs` lists them", name, cli.DidYouMean(name, pageNames()))
}

// titleOf returns a page's heading.
func titleOf(name string) string {
	text, err := readPage(name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if heading, ok := strings.CutPrefix(line, "# "); ok {
		return heading
	}
	return "JSON schema of job files"
}
