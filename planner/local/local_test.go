package local

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierml/tierml/config"
)

// TestAdvice: the middle of the advisor's band reaches the pools' hints, with the file's date.
func TestAdvice(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	job := &config.Job{}
	job.Local.Prices = write("prices.csv", "timestamp,zone,instance_type,product,price\n"+
		"2021-03-02T00:00:00Z,us-east-1a,c5.xlarge,Linux/UNIX,0.07\n2021-03-02T00:00:00Z,us-east-1a,m5.xlarge,Linux/UNIX,0.08\n")
	job.Local.Catalog = write("catalog.csv", "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n"+
		"us-east-1,c5.xlarge,4,8,0.17\nus-east-1,m5.xlarge,4,16,0.192\n")
	job.Local.Advisor = write("advisor.json", `{"ranges":[{"index":0,"label":"<5%","max":5},{"index":1,"label":"5-10%","max":11}],
		"spot_advisor":{"us-east-1":{"Linux":{"c5.xlarge":{"s":60,"r":1}}}}}`)
	m, err := Load(job)
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	if len(offers) != 2 {
		t.Fatalf("%d offers", len(offers))
	}
	info, err := os.Stat(job.Local.Advisor)
	if err != nil {
		t.Fatal(err)
	}
	if h := offers[0].Hints.Interruptions; math.Abs(h.Value-0.08) > 1e-12 || !h.At.Equal(info.ModTime()) {
		t.Errorf("c5.xlarge: %+v, want the middle of 5 to 11 %%", h)
	}
	if h := offers[1].Hints.Interruptions; h.Known() {
		t.Errorf("the advisor says nothing of m5.xlarge, and the hint is %+v", h)
	}
	job.Local.Advisor = job.Local.Catalog
	if _, err := Load(job); err == nil {
		t.Error("a catalog was read as the advisor's file")
	}
}
