package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/fakecloud"
	_ "github.com/tierml/tierml/providers/all"
)

const (
	fakecloudPrices = `timestamp,zone,instance_type,product,price
2014-04-01T00:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.05
2014-04-02T00:00:00Z,us-west-1a,c3.xlarge,Linux/UNIX,0.06
`
	fakecloudCatalog = `region,instance_type,vcpu,memory_gib,ecu,linux_ondemand_usd_hour,network
us-west-1,c3.xlarge,4,7.5,14.0,0.239,Moderate
`
)

// fakecloudFiles writes the input and returns the flags that name it.
func fakecloudFiles(t *testing.T, dir string) []string {
	t.Helper()
	prices, catalog := filepath.Join(dir, "prices.csv"), filepath.Join(dir, "catalog.csv")
	for path, text := range map[string]string{prices: fakecloudPrices, catalog: fakecloudCatalog} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--prices", prices, "--catalog", catalog}
}

func TestFakecloudAndItsBill(t *testing.T) {
	dir := t.TempDir()
	files := fakecloudFiles(t, dir)
	records := filepath.Join(dir, "cloud.jsonl")

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	cmd := NewFakecloudCommand()
	cmd.SetOut(w)
	cmd.SetArgs(append(files, "--records", records, "--set", "boot=10ms", "--capacity", "us-west-1a/c3.xlarge=3", "--step", "at 100h kill all"))
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatalf("nothing is printed: %v", lines.Err())
	}
	endpoint := regexp.MustCompile(`http://\S+`).FindString(lines.Text())
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(r)
		rest <- string(b)
	}()
	resp, err := http.PostForm(endpoint, url.Values{"Action": {"RunInstances"}, "ImageId": {"ami-1"}, "InstanceType": {"c3.xlarge"},
		"MinCount": {"1"}, "MaxCount": {"9"}, "InstanceMarketOptions.MarketType": {"spot"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("RunInstances: %s", resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := <-rest; !strings.Contains(out, "aws --region us-west-1 --endpoint-url "+endpoint) || !strings.Contains(out, "3 instances cost $0.15") {
		t.Errorf("printed:\n%s", out)
	}

	var out bytes.Buffer
	bill := NewFakecloudCommand()
	bill.SetOut(&out)
	bill.SetArgs(append([]string{"bill", records, "-o", "json"}, files...))
	if err := bill.Execute(); err != nil {
		t.Fatal(err)
	}
	var got fakecloud.Bill
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Total.String() != "0.15" || len(got.Lines) != 3 || got.Rules != "ec2-2017" {
		t.Errorf("bill %s: %v", out.String(), err)
	}
	out.Reset()
	bill.SetArgs(append([]string{"bill", records, "-o", "text"}, files...))
	if err := bill.Execute(); err != nil || !strings.Contains(out.String(), "rules ec2-2017: $0.15") {
		t.Errorf("bill %s: %v", out.String(), err)
	}
}

func TestFakecloudRefusesWrongFlags(t *testing.T) {
	files := fakecloudFiles(t, t.TempDir())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--speed", "0"}, "--speed"},
		{[]string{"--start", "noon"}, "--start"},
		{[]string{"--region", "eu-west-1"}, "us-west-1"},
		{[]string{"--rules", "free"}, "ec2-2017"},
		{[]string{"--step", "explode"}, "explode"},
		{[]string{"--step", "kill all of x9.huge"}, "x9.huge"},
		{[]string{"--capacity", "c3.xlarge=2"}, "--capacity"},
		{[]string{"--script", "/dev/null/nothing"}, "nothing"},
		{[]string{"--prices", "/dev/null/nothing"}, "nothing"},
	} {
		cmd := NewFakecloudCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(append([]string(nil), files...), tt.args...))
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tt.want) || cli.ExitCodeOf(err) != cli.ExitUsage {
			t.Errorf("%v: %v", tt.args, err)
		}
	}
}
