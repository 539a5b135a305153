// Package docs embeds this folder's pages, so that the program has them without a copy of the repository.
package docs

import "embed"

// Pages are the files that `tierml docs` shows.
//
//go:embed *.md job.schema.json
var Pages embed.FS
