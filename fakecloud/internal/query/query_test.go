package query

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

var rewrite = flag.Bool("rewrite", false, "write the answers that were got into testdata")

var start = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

// world is a region whose clock the story sets.
type world struct {
	region *region.Region
	now    time.Time
}

func (w *world) Do(f func(*region.Region, time.Time)) { f(w.region, w.now) }

func newWorld(t *testing.T) *world {
	t.Helper()
	pool := func(zone, name string) market.Pool {
		return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: zone, Type: name, Class: market.Spot}
	}
	price := func(minutes int, cents market.USD) market.PricePoint {
		return market.PricePoint{At: start.Add(time.Duration(minutes) * time.Minute), Price: cents * market.Dollar / 100}
	}
	r, err := region.New(region.Config{
		Name: "us-west-1",
		Types: []region.Type{
			{InstanceType: market.InstanceType{Name: "c3.xlarge", Arch: "x86_64", VCPU: 4, MemoryMiB: 7680, OnDemand: 239 * market.Dollar / 1000}},
			{InstanceType: market.InstanceType{Name: "m6g.large", Arch: "arm64", VCPU: 2, MemoryMiB: 8192, OnDemand: 77 * market.Dollar / 1000}},
		},
		Spot: map[market.Pool]*market.History{
			pool("us-west-1a", "c3.xlarge"): market.NewHistory([]market.PricePoint{price(-120, 4), price(-30, 5), price(30, 40)}),
			pool("us-west-1c", "c3.xlarge"): market.NewHistory([]market.PricePoint{price(-60, 6)}),
		},
		Capacity: map[market.Pool]int{pool("us-west-1c", "c3.xlarge"): 2},
		Limits:   region.Limits{SpotInstances: 8, OnDemandInstances: 2},
		Notice:   2 * time.Minute, Boot: 10 * time.Second, Seed: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &world{region: r, now: start}
}

// TestStories plays testdata/*.story. A line "@ +10m" sets the time, "# ..." is a comment, "throttle 1m" and "gone ID" happen to the
// region, "> parameters" is a request on one or more lines; the status and the answer follow.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.story")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".story"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(text), got); diff != "" && !*rewrite {
				t.Errorf("(-want +got; -rewrite accepts it)\n%s", diff)
			}
		})
	}
}

// play returns the story with the answers received.
func play(t *testing.T, story string) string {
	w := newWorld(t)
	handler := New(w, slog.New(slog.DiscardHandler))
	var out strings.Builder
	var request strings.Builder
	ask := func() {
		if request.Len() == 0 {
			return
		}
		form := fill(w, request.String())
		r := httptest.NewRequest(http.MethodPost, "http://ec2.local/", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		fmt.Fprintf(&out, "%d\n%s\n", answer.Code, strings.TrimPrefix(answer.Body.String(), `<?xml version="1.0" encoding="UTF-8"?>`+"\n"))
		request.Reset()
	}
	for _, line := range strings.Split(story, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		if word != ">" || strings.HasPrefix(rest, "Action=") {
			ask()
		}
		switch word {
		case "@":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			w.now = start.Add(d)
		case "throttle":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			w.region.Throttle(w.now, d)
		case "#":
		case ">":
			request.WriteString(rest)
		default:
			continue // an answer
		}
		fmt.Fprintln(&out, line)
	}
	ask()
	return out.String()
}

// fill substitutes the n-th launched instance's id for {i1}, its request's for {r1}, the n-th template's for {t1}, the n-th fleet's for
// {f1}.
func fill(w *world, form string) string {
	var pairs []string
	for n, i := range w.region.Instances(w.now) {
		pairs = append(pairs, fmt.Sprintf("{i%d}", n+1), i.ID, fmt.Sprintf("{r%d}", n+1), i.Request.ID)
	}
	for n, t := range w.region.Templates() {
		pairs = append(pairs, fmt.Sprintf("{t%d}", n+1), t.ID)
	}
	for n, f := range w.region.Fleets(w.now) {
		pairs = append(pairs, fmt.Sprintf("{f%d}", n+1), f.ID)
	}
	return strings.NewReplacer(pairs...).Replace(form)
}

func TestEveryPageOnce(t *testing.T) {
	w := newWorld(t)
	w.region.Launch(w.now, region.LaunchRequest{Type: "c3.xlarge", Zone: "us-west-1a", Image: "ami-1", Spot: true, Min: 7, Max: 7})
	handler := New(w, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		action, element string
		size            string
		want            int
	}{
		{"DescribeInstances", "<instanceId>", "5", 7},
		{"DescribeSpotInstanceRequests", "<spotInstanceRequestId>", "5", 7},
		{"DescribeSpotPriceHistory", "<spotPrice>", "1", 3},
	} {
		form := url.Values{"Action": {tt.action}, "MaxResults": {tt.size}}
		seen, pages := 0, 0
		for {
			r := httptest.NewRequest(http.MethodGet, "/?"+form.Encode(), nil)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			body := answer.Body.String()
			seen += strings.Count(body, tt.element)
			pages++
			w.now = w.now.Add(20 * time.Minute) // a new price appears between pages; it is not included
			_, rest, more := strings.Cut(body, "<nextToken>")
			token, _, _ := strings.Cut(rest, "</nextToken>")
			if !more || token == "" {
				break
			}
			if pages > tt.want {
				t.Fatalf("%s: no end of pages", tt.action)
			}
			form.Set("NextToken", token)
		}
		if seen != tt.want || pages < 2 {
			t.Errorf("%s: %d things on %d pages, want %d", tt.action, seen, pages, tt.want)
		}
		w.now = start
	}
}

func TestNotOurProtocol(t *testing.T) {
	handler := New(newWorld(t), slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		method, kind, body, want string
	}{
		{http.MethodPut, "", "", "InvalidRequest"},
		{http.MethodPost, "application/json", "{}", "InvalidRequest"},
		{http.MethodPost, "application/x-www-form-urlencoded", "%zz", "MalformedQueryString"},
		{http.MethodPost, "application/x-www-form-urlencoded", "", "MissingAction"},
		{http.MethodPost, "application/x-www-form-urlencoded", "Action=Fly", "InvalidAction"},
		{http.MethodPost, "application/x-www-form-urlencoded", "Action=DescribeRegions&Version=2006-06-26", "NoSuchVersion"},
	} {
		r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.kind)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if !strings.Contains(answer.Body.String(), "<Code>"+tt.want+"</Code>") || answer.Code != http.StatusBadRequest {
			t.Errorf("%s %q: %d %s, want %s", tt.method, tt.body, answer.Code, answer.Body, tt.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"abc", "abc", true}, {"abc", "abcd", false}, {"", "", true}, {"*", "", true}, {"*", "xyz", true},
		{"a*c", "abbc", true}, {"a*c", "abb", false}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"*.large", "c3.large", true},
	} {
		if got := matches(tt.pattern, tt.text); got != tt.want {
			t.Errorf("matches(%q, %q) = %v", tt.pattern, tt.text, got)
		}
	}
}

func TestPriceText(t *testing.T) {
	for text, want := range map[string]string{"0.0834": "0.083400", "12": "12.000000", "0.000000001": "0.000000001", "0.32": "0.320000"} {
		price, err := market.ParseUSD(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := priceText(price); got != want {
			t.Errorf("priceText(%s) = %s, want %s", text, got, want)
		}
	}
}
