package table

import (
	"bytes"
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	list := Table{
		Columns: []Column{{Name: "name", Title: "NAME"}, {Name: "usd", Title: "COST"}, {Name: "note", Title: "NOTE", Wide: true}, {Name: "id"}},
		Rows: [][]Cell{
			{Of("a"), {Text: "$1.50", Value: 1.5}, Of("x, y"), Of(7)},
			{Of("long name"), {Text: "-", Value: ""}, Of(""), Of(8)},
		},
	}
	for format, want := range map[string]string{
		Plain: "NAME       COST\na          $1.50\nlong name  -\n",
		Text:  "NAME       COST\na          $1.50\nlong name  -\n",
		Wide:  "NAME       COST   NOTE\na          $1.50  x, y\nlong name  -\n",
		CSV:   "name,usd,note,id\na,1.5,\"x, y\",7\nlong name,,,8\n",
		JSON: `[
  {
    "id": 7,
    "name": "a",
    "note": "x, y",
    "usd": 1.5
  },
  {
    "id": 8,
    "name": "long name",
    "note": "",
    "usd": ""
  }
]
`,
	} {
		var out bytes.Buffer
		if err := list.Write(&out, format); err != nil || out.String() != want {
			t.Errorf("%s: %v, printed\n%s\nwant\n%s", format, err, &out, want)
		}
	}
	if err := list.Write(&bytes.Buffer{}, "xml"); err == nil || !strings.Contains(err.Error(), "write -o table, -o wide, -o json, -o csv") {
		t.Errorf("another form: %v", err)
	}
}

// A column without a name is for people only.
func TestForPeopleOnly(t *testing.T) {
	list := Table{Columns: []Column{{Name: "pool"}, {Title: "ZONE"}}, Rows: [][]Cell{{Of("a/b"), Of("a")}}}
	for format, want := range map[string]string{Plain: "ZONE\na\n", CSV: "pool\na/b\n", JSON: "[\n  {\n    \"pool\": \"a/b\"\n  }\n]\n"} {
		var out bytes.Buffer
		if err := list.Write(&out, format); err != nil || out.String() != want {
			t.Errorf("%s: %v, printed\n%s", format, err, &out)
		}
	}
}

func TestNothing(t *testing.T) {
	var out bytes.Buffer
	if err := (Table{Columns: []Column{{Name: "name", Title: "NAME"}}}).Write(&out, JSON); err != nil || out.String() != "[]\n" {
		t.Errorf("no rows are %q, %v", &out, err)
	}
}

// On a narrow terminal the widest cells are cut first; if that is not enough, rows become records. Nothing is wider than the terminal.
func TestFits(t *testing.T) {
	list := Table{Columns: []Column{{Name: "run", Title: "RUN"}, {Name: "usd", Title: "COST"}, {Name: "why", Title: "WHY"}},
		Rows: [][]Cell{{Of("demo-1"), Of("$1.50"), Of("the cheapest of all pools that will do")}, {Of("demo-2"), Of("$12.00"), Of("-")}}}
	for width, want := range map[int]string{
		0:  "RUN     COST    WHY\ndemo-1  $1.50   the cheapest of all pools that will do\ndemo-2  $12.00  -\n",
		40: "RUN     COST    WHY\ndemo-1  $1.50   the cheapest of all poo…\ndemo-2  $12.00  -\n",
		25: "RUN   demo-1\nCOST  $1.50\nWHY   the cheapest of all pools that will do\n\nRUN   demo-2\nCOST  $12.00\nWHY   -\n",
	} {
		var out bytes.Buffer
		if err := list.writeLines(&out, false, width); err != nil || out.String() != want {
			t.Errorf("width %d: %v, printed\n%s\nwant\n%s", width, err, &out, want)
		}
	}
	for width := 29; width < 80; width++ {
		var out bytes.Buffer
		if err := list.writeLines(&out, false, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(line)) - 1; n > width {
				t.Errorf("%d cells on a terminal of %d: %s", n, width, line)
			}
		}
	}
	var none bytes.Buffer
	if err := (Table{Columns: list.Columns}).writeLines(&none, false, 5); err != nil || none.String() != "RUN  COST  WHY\n" {
		t.Errorf("no rows: %v %q", err, &none)
	}
}

// Without a terminal the environment determines the line width.
func TestWidthOfTheEnvironment(t *testing.T) {
	for columns, want := range map[string]int{"40": 40, "": 0, "7": 0, "many": 0} {
		t.Setenv("COLUMNS", columns)
		if got := Width(&bytes.Buffer{}); got != want {
			t.Errorf("COLUMNS=%q: %d, want %d", columns, got, want)
		}
	}
}

// No word is broken, nothing is lost, and lines that fit stay as they are.
func TestFold(t *testing.T) {
	const text = "Plan for demo\n\n  ✓  c3.4xlarge  us-west-1a    0.2031     0.9560\n  \x1b[1mExpected cost     $12.05   $11.61 to $12.83\x1b[0m\nunbreakable-as-it-is-so-long\n"
	const want = "Plan for demo\n\n  ✓  c3.4xlarge\n    us-west-1a  0.2031\n    0.9560\n" +
		"  \x1b[1mExpected cost\n    $12.05  $11.61 to\n    $12.83\x1b[0m\nunbreakable-as-it-is-so-long\n"
	if got := fold(text, 22); got != want {
		t.Errorf("folded to 22 columns:\n%s\nwant:\n%s", got, want)
	}
	if got := fold(text, 60); got != text {
		t.Errorf("lines that fit became\n%s", got)
	}
}
