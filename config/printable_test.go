package config

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/terminal"
)

// Names and texts with control characters are refused, wherever in a job file they are, and not repeated raw.
func TestControlCharactersAreRefused(t *testing.T) {
	const job = "name: small\ncloud: none\ntrain: {app: mf, data: \"%DATA\", clocks: 2, params: {rank: 4, %KEY: 1}}\nenv: {WHO: \"%ENV\"}\n"
	load := func(pairs ...string) error {
		_, err := parse("job.yaml", []byte(strings.NewReplacer(append(pairs, "%DATA", "s3://b/x", "%KEY", "batches", "%ENV", "ann")...).Replace(job)),
			func(string) (string, bool) { return "", false })
		return err
	}
	if err := load(); err != nil {
		t.Fatal(err)
	}
	if err := load("%ENV", `two\nlines\tאב`); err != nil {
		t.Error(err)
	}
	for _, pair := range [][2]string{{"%DATA", `a\e[2J`}, {"%DATA", `a\u009b`}, {"%DATA", `a\u202e`}, {"%ENV", `\r`}, {"%KEY", `"a\e[2J"`}} {
		if err := load(pair[0], pair[1]); err == nil || !strings.Contains(terminal.Clean(err.Error()), "control characters") {
			t.Errorf("%v: %v", pair, err)
		}
	}
}
