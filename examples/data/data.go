// Package data is two months of spot prices, their price list, and ratings, embedded in the program for users without data of their own. It
// does not know their uses.
package data

import "embed"

// Files are the recording, its price list, the ratings, and where they come from, with their licences.
//
//go:embed aws-us-west-1a-c3-2014.csv.gz aws-ondemand-us-west-1-2015-04-02.csv jester5k.csv.gz jester5k.LICENSE README.md
var Files embed.FS

// The names of Files.
const (
	Prices  = "aws-us-west-1a-c3-2014.csv.gz"
	Catalog = "aws-ondemand-us-west-1-2015-04-02.csv"
	Ratings = "jester5k.csv.gz"
	Licence = "jester5k.LICENSE"
	Readme  = "README.md"
)
