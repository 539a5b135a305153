package config

import (
	"maps"
	"slices"
	"testing"
)

func TestFiles(t *testing.T) {
	job := defaults()
	job.Train.Data, job.Local.Prices, job.Local.Catalog = "s3://bucket/data.csv", "prices.csv", "catalog.csv"
	files := job.Files()
	if got, want := slices.Sorted(maps.Keys(files)), []string{"local.catalog", "local.prices"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	*files["local.prices"] = "elsewhere"
	if job.Local.Prices != "elsewhere" {
		t.Error("a file's name cannot be changed")
	}
}
