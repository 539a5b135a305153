// Package docs has this folder's pages, which the program carries along for those without a copy of the repository.
package docs

import "embed"

// Pages are the files that `tierml docs` shows.
//
//go:embed *.md job.schema.json
var Pages embed.FS
