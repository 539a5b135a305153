package input

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a,b\r1,2\r":         "a,b\n1,2\n",
		"a,b\r\n1,2\r\n":     "a,b\r\n1,2\r\n",
		"a,b\n1,\"x\ry\"\n":  "a,b\n1,\"x\ry\"\n",
		"\x00\x00\x08\x01\r": "\x00\x00\x08\x01\r", // images
		"[a],b\n1,2\n":       "[a],b\n1,2\n",
		"":                   "",
		"{\"a\": 1, \"b\": {\"c\": \"x, y\"}}\n{\"a\": null, \"d\": [1, 2]}\n": "a,b.c,d\n1,\"x, y\",\n,,\"[1, 2]\"\n",
		"\ufeff[\n {\"a\": true,\n \"b\": \"1\\n2\"},\n {\"b\": 1e5}]":         "a,b\ntrue,1 2\n,1e5\n",
	} {
		r, err := Plain(strings.NewReader(in))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%q became %q: %v", in, got, err)
		}
	}
	for _, in := range []string{`{"a": [1, 2], "b": [3, 4]}`, `{"data": {"a": 1}}`, "[[1, 2]]", "[]", "{}"} {
		if _, err := Plain(strings.NewReader(in)); !errors.Is(err, ErrJSON) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Faults name the object.
func TestObjects(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\": 1}\n{\"a\": 2,}\n": "JSON object 2: ",
		"{\"a\": 1}\n{\"a\": 2\n":   "JSON object 2: unexpected EOF",
		"[{\"a\": 1}, {\"a\": 2}":   "JSON object 3: unexpected EOF",
		"[{\"a\": 1}, 7]":           "JSON object 2: " + ErrJSON.Error(),
		"{\"a\": \"" + strings.Repeat("x", lookJSON/2) + "\"}\n{\"a\": \"" + strings.Repeat("x", lookJSON/2) + "\"}\n{\"b\": 1}\n": `JSON object 3: "b" is in none`,
	} {
		r, err := Plain(strings.NewReader(in))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.50q: %v, want %q", in, err, want)
		}
	}
	ratings, err := ReadRatings("r.jsonl", strings.NewReader(`{"reviewerID": "A1", "asin": "00B", "helpful": [0, 0], "reviewText": "a\nb", "overall": 5.0}
{"reviewerID": "A2", "asin": "00B", "overall": 4.0}
`), 0)
	if err != nil || len(ratings.Rated) != 2 || len(ratings.UserNames) != 2 || ratings.Rated[0].Value != 5 {
		t.Errorf("%+v, %v", ratings, err)
	}
	bag, err := ReadBag("t.jsonl", strings.NewReader(`{"text": "one, two, one", "id": 1}
{"text": "two three four", "id": 2}
`), 0, BagOptions{})
	if err != nil || len(bag.ID) != 2 || strings.Join(bag.Vocabulary, " ") != "four one three two" {
		t.Errorf("%+v, %v", bag, err)
	}
}

func TestOldLineEnds(t *testing.T) {
	table, err := ReadTable("t.csv", strings.NewReader("x,y\r1,2\r3,4\r"), 0)
	if err != nil || table.Rows != 2 {
		t.Errorf("%d rows, %v", table.Rows, err)
	}
	ratings, err := ReadRatings("r.csv", strings.NewReader("user,item,rating\r1,1,5\r1,2,4\r"), 0)
	if err != nil || len(ratings.Rated) != 2 {
		t.Errorf("%d ratings, %v", len(ratings.Rated), err)
	}
}

// A number with a currency or percent sign does not count as a word: a column would have as many words as rows.
func TestNumbersWithSigns(t *testing.T) {
	for cell, want := range map[string]float32{"$0.5": .5, "-$12": -12, "€3": 3, "£ 7": 7, "12%": 12, "-0.5 %": -.5, "$1000.25": 1000.25,
		`"$1,234.50"`: 1234.5, `"12,345,678"`: 12345678, "5 €": 5, "2024-01-02": 19724, "01/22/2024": 19744, "2.1.2024": 19724, "2024-01-02 12:00:00": 19724.5,
		"2024-01-02 12:00:00.5 UTC": 19724.5, "20240102T120000Z": 19724.5, `"January 2, 2024"`: 19724, "Tue Jan  2 12:00:00 2024": 19724.5,
		`"Tue, 02 Jan 2024 14:00:00 +0200"`: 19724.5, `"Tue, 02 Jan 2024 12:00:00 GMT"`: 19724.5} {
		got, err := ReadTable("t.csv", strings.NewReader("x,y\n"+cell+",2\n"), 0)
		if err != nil || len(got.Columns[0].Words) > 0 || got.Value[0] != want {
			t.Errorf("%s: %v, %v; want %v", cell, got.Value, err, want)
		}
	}
	for cell, want := range map[string]string{`"0,5"`: "a comma for its point", "13/13/2024": "no such day"} {
		if _, err := ReadTable("t.csv", strings.NewReader("x,y\n"+cell+",2\n"), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", cell, err)
		}
	}
	for _, word := range []string{"$", "%", "0-10%", "$HOME", "a%"} {
		if _, err := ReadTable("t.csv", strings.NewReader("x,y\n"+word+",2\n"), 0); err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
}
