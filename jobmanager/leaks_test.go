package jobmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Leaks of each cluster that jobs have used are ended, once per pass, even if one of the clouds refuses.
func TestLeaksAreEnded(t *testing.T) {
	s := newSite(t)
	var asked []string
	s.cfg.EndExpiredMachines = func(_ context.Context, file string) error {
		asked = append(asked, filepath.Base(filepath.Dir(file)))
		return errors.New("not now")
	}
	s.begin()
	ids := map[string]string{}
	for name, cloud := range map[string]string{"blue": "ec2", "blue again": "ec2", "green": "ec2", "here": "local"} {
		id := s.submit()
		ids[id] = strings.Fields(name)[0]
		text := "name: real\ncloud: local\n"
		if cloud == "ec2" {
			text = fmt.Sprintf("name: real\ncloud: ec2\nresources: {count: 2, any_of: [{type: c5.large}]}\ntrain: {app: mf, data: s3://b/x, clocks: 4}\n"+
				"ec2: {region: us-west-2, cluster: %s, image: ami-1, program: {url: s3://b/t, sha256: %s}, checkpoints: s3://b/c}\n", ids[id], strings.Repeat("0a", 32))
		}
		if err := os.WriteFile(filepath.Join(s.dir(id), submittedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]cluster{}
	for pass := range 2 {
		asked = nil
		s.endLeaks(t.Context(), known)
		for i, id := range asked {
			asked[i] = ids[id]
		}
		slices.Sort(asked)
		if !slices.Equal(asked, []string{"blue", "green"}) {
			t.Errorf("pass %d ends leaks of %v", pass, asked)
		}
	}
}
