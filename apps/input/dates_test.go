package input

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/pattern"
)

// A number above 12 anywhere in a column shows whether its dates begin with the day or the month.
func TestDatesWithSlashes(t *testing.T) {
	ambiguous := "at,y\n1/2/2024,1\n12/1/2024 23:59,2\n"
	for text, want := range map[string]string{
		"at,y\n02/01/2024,1\n13/01/2024,2\n":                              "[19724 19735]",
		"at,y\n01/02/2024,1\n01/13/2024,2\n":                              "[19724 19735]",
		"at,y\n13/01/2024 12:00,1\n02/01/2024 06:00,2\n":                  "[19735.5 19724.25]",
		ambiguous + "13/4/2024,3\n":                                       "[19754 19734.998 19826]",
		ambiguous + "4/13/2024,3\n":                                       "[19724 20058.998 19826]",
		"at,y\n1/2/69,1\n25/12/1960,2\n":                                  "[-334 -3294]",
		"at,y\n" + strings.Repeat("2/1/2024,1\n", 2000) + "13/1/2024,2\n": "[" + strings.Repeat("19724 ", 2000) + "19735]",
	} {
		table, err := ReadTable("t.csv", strings.NewReader(text), 0)
		if err != nil {
			t.Errorf("%.40s: %v", text, err)
			continue
		}
		var got []float32
		for k, i := range table.Index {
			if i == 0 {
				got = append(got, table.Value[k])
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%.40s: %.100v, want %.100s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		ambiguous:                                       "none shows whether the month or the day comes first",
		"at,y\n13/1/2024,1\n1/13/2024,2\n":              "in another order than the dates above it",
		"at,y\n31/2/2024,1\n1/3/2024,2\n":               "there is no such day",
		"at,y\n13/2/24,1\n14/2/24,2\n":                  "may begin with a year or a day",
		"at,y\n2024-03-01,1\n1/2/2024,2\n13/2/2024,2\n": "among other cells",
	} {
		if _, err := ReadTable("t.csv", strings.NewReader(text), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
	for use, want := range map[Use]float32{Numbers: 19724, DaysFirst: 19754} { // as the model's data were
		table, err := TableOptions{Use: func(string) Use { return use }}.Read("t.csv", strings.NewReader("at\n1/2/2024\n"), 0)
		if err != nil || table.Value[0] != want {
			t.Errorf("%v: %v, %v; want %v", use, table.Value, err, want)
		}
	}
	table, err := TableOptions{Ignore: []string{"at"}}.Read("t.csv", strings.NewReader(ambiguous), 0) // a cure
	if err != nil || len(table.Columns) != 1 {
		t.Errorf("%+v, %v", table.Columns, err)
	}
}

var command = pattern.Of("`(sed [^`]*) OLD >NEW`")

// The commands of refusals make the file readable.
func TestCommandsRewriteDates(t *testing.T) {
	if _, err := exec.LookPath("sed"); err != nil {
		t.Skip("no sed is here, which the messages name: install it")
	}
	for text, want := range map[string][]float32{
		"at,y\n01/02/2024,1\n12/1/2024 23:59,2\n": {19724, 19754},
		"at,y\n13/2/24,1\n14/2/24,2\n":            {19766},
	} {
		_, err := ReadTable("t.csv", strings.NewReader(text), 0)
		if err == nil {
			t.Fatal("it is read")
		}
		if _, err := ReadTable("t.csv.GZ", strings.NewReader(text), 0); err == nil || strings.HasSuffix(err.Error(), "Unpack the file first") != strings.Contains(text, "/2024") {
			t.Errorf("of a packed file: %v", err)
		}
		commands := command().FindAllStringSubmatch(err.Error(), -1)
		if len(commands) != len(want) {
			t.Fatalf("%d commands in %v", len(commands), err)
		}
		for i, found := range commands {
			sed := exec.Command("sh", "-c", found[1])
			sed.Stdin = strings.NewReader(text)
			out, err := sed.Output()
			if err != nil {
				t.Fatalf("%s: %v", found[1], err)
			}
			table, err := ReadTable("t.csv", strings.NewReader(string(out)), 0)
			if err != nil || !slices.Contains(table.Value, want[i]) {
				t.Errorf("%s: %q: %v, %v", found[1], out, table.Value, err)
			}
		}
	}
}
