package query

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/fuzzing"
)

// FuzzRequest sends a region whole HTTP requests, one after the other as time continues: nothing fails that is not the client's fault or
// the region's lack of machines, and memory is bounded.
func FuzzRequest(f *testing.F) {
	const post = "POST / HTTP/1.1\nHost: ec2.local\nContent-Type: application/x-www-form-urlencoded\n\n"
	stories, err := filepath.Glob("testdata/*.story")
	if err != nil || len(stories) == 0 {
		f.Fatalf("no stories: %v", err)
	}
	for _, story := range stories {
		text, err := os.ReadFile(story)
		if err != nil {
			f.Fatal(err)
		}
		for some := range slices.Chunk(requests(string(text)), 6) {
			f.Add(post + strings.Join(some, fuzzing.Between+post))
		}
	}
	f.Add("GET /?Action=DescribeInstances&Filter.1.Name=tag:a&Filter.1.Value.1=*b?&MaxResults=5&NextToken=xx HTTP/1.1\nHost: ec2.local")
	f.Add(post + "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.Overrides.9999999999.InstanceType=x")
	f.Add("POST / HTTP/1.1\nHost: ec2.local\nX-Amz-Target: AWSPriceListService.GetProducts\nContent-Type: application/x-amz-json-1.1\n\n" +
		`{"ServiceCode":"AmazonEC2","Filters":[{"Type":"TERM_MATCH","Field":"regionCode","Value":"us-west-1"}],"MaxResults":1}`)
	f.Fuzz(func(t *testing.T, dialog string) {
		if len(dialog) > 16<<10 {
			return
		}
		w := newWorld(t)
		handler := New(w, slog.New(slog.DiscardHandler))
		fuzzing.AtMost(t, len(dialog), 8<<10, func() {
			for text := range strings.SplitSeq(dialog, fuzzing.Between) {
				r, pause := fuzzing.Request(fill(w, text))
				if r == nil {
					continue
				}
				w.now = w.now.Add(pause)
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, r)
				if strings.Contains(answer.Body.String(), "InternalError") {
					t.Errorf("%q: %s", text, answer.Body)
				}
			}
		})
	})
}

// requests returns the bodies of a story's requests.
func requests(story string) (bodies []string) {
	for line := range strings.SplitSeq(story, "\n") {
		body, ok := strings.CutPrefix(line, "> ")
		switch {
		case ok && strings.HasPrefix(body, "Action="):
			bodies = append(bodies, body)
		case ok && len(bodies) > 0:
			bodies[len(bodies)-1] += body
		}
	}
	return bodies
}
