package look

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/apps"
)

// lines returns a header and n rows.
func lines(head string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		b.WriteString(row(i) + "\n")
	}
	return b.String()
}

// TestAt proposes applications for small files in common formats.
func TestAt(t *testing.T) {
	const n = 100
	pairs := func(form string) func(int) string {
		return func(i int) string { return fmt.Sprintf(form, i%10, i/10, 1+i*7%5) }
	}
	for name, c := range map[string]struct {
		text, app, target string
		ignore            []string
	}{
		"survivors": {lines("PassengerId,Survived,Name,Age\n", n, func(i int) string { return fmt.Sprintf("%d,%d,\"Doe, J. N%d\",%d", i+1, i%2, i, i%60) }),
			"logistic", "Survived", []string{"PassengerId"}},
		"class first, no header": {lines("", n, func(i int) string { return fmt.Sprintf("%d,%d.5,%d.25", 1+i%3, i, i*i) }), "mlr", "c1", nil},
		"words, no header":       {lines("", n, func(i int) string { return []string{"p,x,s", "e,y,s", "e,x,f"}[i%3] }), "logistic", "c3", nil},
		"blanks":                 {lines("", n, func(i int) string { return fmt.Sprintf("A%d %d %d", i%3, i*7, 1+i%2) }), "logistic", "c3", nil},
		"price in the middle":    {lines("beds;price;street\n", n, func(i int) string { return fmt.Sprintf("%d;$%d,500;s%d", i%4, 10+i, i%5) }), "ridge", "price", nil},
		"class of passengers":    {lines("survived,class,fare\n", n, func(i int) string { return fmt.Sprintf("%d,%d,%d.5", i%2, 1+i%3, i) }), "logistic", "survived", nil},
		"coordinates":            {lines("price,x,y,z\n", n, func(i int) string { return fmt.Sprintf("%d,%d.5,%d.5,%d.5", 300+i*i, i, i+1, i+2) }), "ridge", "price", nil},
		"income as a feature":    {lines("age,income,vote\n", n, func(i int) string { return fmt.Sprintf("%d,%d.5,%d", i%60, i, i%2) }), "logistic", "vote", nil},
		"called as the file":     {lines("f,speed,rain\n", n, func(i int) string { return fmt.Sprintf("%d.5,%d,%d", i, i%9, i%8) }), "ridge", "f", nil},
		"prices of shares":       {lines("symbol,day,close\n", n, func(i int) string { return fmt.Sprintf("S%d,%d,%d.25", i%7, i/7, i) }), "ridge", "close", nil},
		"days":                   {lines("date,sales\n", 28, func(i int) string { return fmt.Sprintf("2024-02-%02d,%d.5", i+1, i*3) }), "ridge", "sales", nil},
		"ratings":                {lines("rating,movieId,userId\n", n, func(i int) string { return fmt.Sprintf("%d,%d,%d", i%5, i%10, i/10) }), "mf", "", nil},
		"counts and ids":         {lines("shop,sku_code,n\n", n, pairs("%d,%d,%d")), "mf", "", nil},
		"clicks":                 {lines("user,item\n", n, func(i int) string { return fmt.Sprintf("%d,%d", i%10, i/10) }), "mf", "", nil},
		"LibFM":                  {lines("", n, func(i int) string { return fmt.Sprintf("%d %d:1 %d:1", i%5, i%10, 10+i/10) }), "mf", "", nil},
		"LDA-C":                  {lines("", n, func(i int) string { return fmt.Sprintf("2 %d:1 %d:3", i%10, 10+i%7) }), "lda", "", nil},
		"LDA-C, a wrong count":   {"3 1:1\n" + lines("", n, func(i int) string { return fmt.Sprintf("2 %d:1 %d:3", i%10, 10+i%7) }), "lda", "", nil},
		"text":                   {lines("", n, func(i int) string { return strings.Repeat("law vote court ", 1+i%3) }), "lda", "", nil},
		"reviews":                {lines("id,review,stars\n", n, func(i int) string { return fmt.Sprintf("%d,\"a good film, number %d\",%d", i, i, i%5) }), "lda", "", nil},
		"a row a word":           {lines("document,term,count\n", n, func(i int) string { return fmt.Sprintf("d%d,w%d,%d", i%10, i/10, 1+i%3) }), "lda", "", nil},
		"numbers as of words":    {lines("", n, func(i int) string { return fmt.Sprintf("%d,%d,%d", i%10, i/10, 1+i%7/4+i%11/10) }), "", "", nil},
		"clear dates at the end": {lines("date,shop,sales\n", 400_000, func(i int) string { return fmt.Sprintf("%d/3/2024,%d,%d.5", 1+i/13_000, i%90, i*7) }), "ridge", "sales", nil},
		"LIBSVM":                 {lines("", n, func(i int) string { return fmt.Sprintf("%d.5 0:1 %d:2", i, 1+i%9) }), "ridge", "", nil},
	} {
		got, err := At(apps.Input{Name: "f", Data: strings.NewReader(c.text)}, "")
		if err != nil || got.App != c.app || got.Target != c.target || !slices.Equal(got.Ignore, c.ignore) {
			t.Errorf("%s: %+v, %v; want %s of %q without %q", name, got, err, c.app, c.target, c.ignore)
		}
	}
	for head, guess := range map[string]bool{"a,b,c\n": true, "a,b,price\n": false, "price,b,c\n": false, "income,b,c\n": true, "a,b,income\n": false, "sales,price,c\n": true, "a,tons,c\n": false,
		"a,price,c\n": false, "a,mpg,price\n": false, "a,mpg,c\n": true, "price,b,sales\n": false, "a,b,crushing.strength\n": false, "a,b,inequality\n": true, "a,b,type\n": false, "a,target,c\n": false,
		"a,saleprice,c\n": false, "year,b,c\n": true} {
		got, err := At(apps.Input{Name: "crop_tons.csv", Data: strings.NewReader(lines(head, n, pairs("%d.5,%d.25,%d.5")))}, "")
		if err != nil || got.Guess != guess || len(got.Columns) != 3 || got.Target == "" {
			t.Errorf("%q: %+v, %v; want a guess: %v", head, got, err, guess)
		}
	}
	for text, want := range map[string]string{
		"user,item,rating\n1,2,4/5\n3,2,5/5\n": `f:2: rating "4/5" is not a number`,
		"name,price\n'A, B',3\n'C',4\n'D',5\n": "f:2: 3 columns, the header has 2; quotes are",
		"a,price\n1,2\n3,4\n":                  "f: it has 2 examples, too few",
		"a,b,class\n1,2,x\n3,4,x\n5,6,x\n":     `f: the column "class" is the same in every line`,
		"1,2 1:2\n0 1:3\n1 1:1\n":              `f:1: label "1,2" is not a finite number: of several labels write one`,
		"x\n":                                  "",
		lines("", 9, func(i int) string { return fmt.Sprintf("%d:2 %d:1", i, i+1+i%3) }):                                                                            "f:1: its first word may be an index with its value, or a label with a weight",
		lines("", 9, func(i int) string { return fmt.Sprintf("0 %d:1", i+1) }):                                                                                      "f: the label is 0 in every line",
		lines("%%MatrixMarket matrix coordinate integer general\n9 9 27\n", 27, func(i int) string { return fmt.Sprintf("%d %d %d", 1+i/3, 1+(i+i/3)%9, 1+i%3/2) }): "f: its whole numbers may be counts of words",
		lines("%%MatrixMarket matrix coordinate integer general\n20 9 60\n", 60, func(i int) string {
			return fmt.Sprintf("%d %d %d", 1+i/3, 1+(i+i/3)%9, []int{1, 1, 2, 1, 3, 2, 4, 1, 5, 3}[i%10])
		}): "f: its whole numbers may be counts of words",
		"cat 1:0.5 3:2\ndog 2:1\ncat 1:1\n":                                                            `f:1: label "cat" is not a finite number: write classes`,
		"1 1:2:3 4:5:6\n0 3:4:5\n1 2:2:2\n":                                                            `f:1: value "2:3" of index 1 is not a finite number: of LibFFM's`,
		lines("", n, func(i int) string { return fmt.Sprintf("%d,%d", i%10, i/10) }):                   "f: its two columns have no names: a first line `user,item`",
		lines("area,price\n", n, func(i int) string { return fmt.Sprintf("%d,%d.%dK", i%10, i, i%7) }): `f: the column "price", to be predicted, has another word in most lines`,
		"a \"b, c\nd\n": "", // the first line does not fit a table
	} {
		if got, err := At(apps.Input{Name: "f", Data: strings.NewReader(text)}, ""); err != nil || got.App != "" || !strings.HasPrefix(got.Why, want) || want == "" && got.Why != "" {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
	got, err := At(apps.Input{Name: "f", Data: strings.NewReader(lines("a,b,price\n", n, pairs("%d,%d,%d.5")))}, "a")
	if err != nil || got.App != "mlr" || got.Target != "a" {
		t.Errorf("with a target: %+v, %v", got, err)
	}
}

// TestTargets proposes columns for the headers that people's tables have, by names, places and values.
func TestTargets(t *testing.T) {
	const n = 120
	type column struct {
		name string
		cell func(i int) string
	}
	measured := func(name string) column {
		return column{name, func(i int) string { return fmt.Sprintf("%d.%d", (i*37+len(name)*11)%89, i%10) }}
	}
	classes := func(name string, of ...string) column {
		return column{name, func(i int) string { return of[(i*7+len(name))%len(of)] }}
	}
	for name, c := range map[string]struct {
		file        string
		columns     []column
		app, target string // empty = it asks
	}{
		"a question at the end":        {"f.csv", []column{measured("age"), classes("sex", "m", "f"), classes("liver_problem", "0", "1")}, "logistic", "liver_problem"},
		"one of several questions":     {"f.csv", []column{classes("q", "0", "1"), classes("r", "0", "1"), measured("a"), classes("s", "0", "1")}, "", ""},
		"the only column of words":     {"f.csv", []column{measured("lag"), measured("volts"), measured("amps"), measured("ohms"), classes("direction", "up", "down", "level")}, "mlr", "direction"},
		"the only words, first":        {"f.csv", []column{classes("letr", "a", "b", "c"), measured("xb"), measured("ybar"), measured("on"), measured("edge")}, "mlr", "letr"},
		"a variant of another":         {"f.csv", []column{measured("a"), classes("league", "n", "a"), classes("new league", "n", "a")}, "", ""},
		"low and high salaries":        {"f.csv", []column{measured("a"), classes("left", "0", "1"), measured("b"), classes("salary", "low", "high", "middle")}, "logistic", "left"},
		"a price within":               {"f.csv", []column{measured("rooms"), measured("price"), measured("lat"), measured("lon")}, "ridge", "price"},
		"prices of states":             {"f.csv", []column{classes("state", "a", "b", "c"), classes("year", "1990", "1991"), measured("price"), measured("packs")}, "", ""},
		"a season's name":              {"PimaDiabetes.csv", []column{measured("a"), classes("sex", "m", "f"), classes("diabetes", "pos", "neg")}, "logistic", "diabetes"},
		"a share":                      {"f.csv", []column{measured("Open"), measured("High"), measured("Low"), measured("Close"), measured("Volume")}, "ridge", "Close"},
		"two numbers":                  {"f.csv", []column{measured("percentage marks"), measured("salary")}, "ridge", "salary"},
		"a wide table of numbers":      {"f.csv", []column{measured("a"), measured("bb"), measured("ccc"), measured("dddd"), measured("e e"), measured("ff f"), measured("lpsa")}, "ridge", "lpsa"},
		"a series":                     {"f.csv", []column{measured("x_acc"), measured("bb"), measured("y_acc"), measured("dddd"), measured("e e"), measured("ff f"), measured("z_acc")}, "", ""},
		"times until an event":         {"f.csv", []column{measured("time"), classes("status", "0", "1"), measured("age"), classes("prior", "0", "10")}, "", ""},
		"names of passengers":          {"f.csv", []column{classes("survived", "0", "1"), measured("age"), classes("passengerClass", "1st", "2nd", "3rd")}, "logistic", "survived"},
		"a unit":                       {"f.csv", []column{measured("water (kg)"), measured("strength (MPa)")}, "ridge", "strength (MPa)"},
		"the name of each row":         {"f.csv", []column{measured("a"), measured("bb"), measured("ccc"), measured("dddd"), classes("function", "x", "y", "z"), {"gene", func(i int) string { return fmt.Sprintf("Y%dW", i) }}}, "mlr", "function"},
		"an age, a salary, a purchase": {"f.csv", []column{{"Age", func(i int) string { return fmt.Sprint(20 + i%30) }}, {"EstimatedSalary", func(i int) string { return fmt.Sprint(1000 * (20 + i/4)) }}, classes("Purchased", "0", "1")}, "logistic", "Purchased"},
		"forty units are no classes":   {"f.csv", []column{measured("a"), {"output", func(i int) string { return fmt.Sprint(20 + i%25) }}}, "ridge", "output"},
		"a value that some rows lack":  {"f.csv", []column{measured("a"), {"price", func(i int) string { return []string{"?", "1.5", "2.5", "3.25", "7", "9", "8.5", "4", "6", "5"}[i%10] }}}, "ridge", "price"},
		"most rows lack it":            {"f.csv", []column{measured("a"), measured("b"), {"price", func(i int) string { return []string{"?", "?", "2.5"}[i%3] }}, classes("sex", "m", "f")}, "", ""},
	} {
		text := lines("", 1, func(int) string {
			var names []string
			for _, c := range c.columns {
				names = append(names, c.name)
			}
			return strings.Join(names, ",")
		}) + lines("", n, func(i int) string {
			var cells []string
			for _, c := range c.columns {
				cells = append(cells, c.cell(i))
			}
			return strings.Join(cells, ",")
		})
		got, err := At(apps.Input{Name: c.file, Data: strings.NewReader(text)}, "")
		if got.Guess && c.target == "" && err == nil {
			continue
		}
		if err != nil || got.App != c.app || got.Target != c.target || got.Guess {
			t.Errorf("%s: %+v, %v; want %s of %q", name, got, err, c.app, c.target)
		}
		if name == "a value that some rows lack" && !strings.Contains(got.Why, "12 of 120 rows lack: they are left out") {
			t.Error(got.Why)
		}
	}
}
