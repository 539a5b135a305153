package fakecloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

var t0 = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

func usd(t *testing.T, s string) market.USD {
	t.Helper()
	v, err := market.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func rules(t *testing.T, name string) market.RuleBook {
	t.Helper()
	r, err := market.Rules(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const lifeRecords = `{"t":"2014-04-01T00:00:00.5Z","kind":"open","region":"us-west-1","rules":"ec2-2017"}
{"t":"2014-04-01T00:10:00.9Z","kind":"launch","id":"i-1","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/spot","bid":"0.239","launched":"2014-04-01T00:10:00Z"}
{"t":"2014-04-01T00:10:00.9Z","kind":"launch","id":"i-2","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/spot","bid":"0.239","launched":"2014-04-01T00:10:00Z"}
{"t":"2014-04-01T00:20:00Z","kind":"launch","id":"i-3","pool":"ec2/us-west-1/us-west-1a/c3.xlarge/on-demand","launched":"2014-04-01T00:20:00Z"}
{"t":"2014-04-01T01:30:00Z","kind":"end","id":"i-1","ended":"2014-04-01T01:30:00Z","by":"provider","reason":"Server.SpotInstanceTermination"}
{"t":"2014-04-01T01:30:00Z","kind":"end","id":"i-2","ended":"2014-04-01T01:30:00Z","by":"user","reason":"Client.UserInitiatedShutdown"}
{"t":"2014-04-01T02:00:00Z","kind":"tick"}
`

func lifeHistories(t *testing.T) map[market.Pool]*market.History {
	spot := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.xlarge", Class: market.Spot}
	onDemand := spot
	onDemand.Class = market.OnDemand
	return map[market.Pool]*market.History{
		spot:     market.NewHistory([]market.PricePoint{{At: t0, Price: usd(t, "0.05")}, {At: t0.Add(time.Hour), Price: usd(t, "0.07")}}),
		onDemand: market.Constant(usd(t, "0.239")),
	}
}

func TestBill(t *testing.T) {
	records, err := ReadRecords(strings.NewReader(lifeRecords))
	if err != nil {
		t.Fatal(err)
	}
	bill, err := NewBill(records, rules(t, "ec2-2017"), lifeHistories(t))
	if err != nil {
		t.Fatal(err)
	}
	// By ec2-2017: the first hour at the price of 00:10, the second, interrupted one free for i-1 and at the
	// price of 01:10 for i-2; i-3 still runs in its second hour.
	for n, want := range []string{"0.05", "0.12", "0.478"} {
		if got := bill.Lines[n].Total; got != usd(t, want) {
			t.Errorf("%s costs %s, want %s", bill.Lines[n].ID, got, want)
		}
	}
	if bill.Total != usd(t, "0.648") || !bill.AsOf.Equal(t0.Add(2*time.Hour)) {
		t.Errorf("total %s as of %v", bill.Total, bill.AsOf)
	}
	early, err := NewBillAsOf(records, rules(t, "ec2-2017"), lifeHistories(t), t0.Add(15*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if len(early.Lines) != 2 || early.Total != usd(t, "0.10") || early.Lines[0].By != market.Running {
		t.Errorf("as of a quarter past: %+v", early)
	}
}

// A cloud that continues with a killed one's records charges what was due when that one was last alive, once.
func TestBillOfTwoClouds(t *testing.T) {
	records, err := ReadRecords(strings.NewReader(lifeRecords + `{"t":"2014-04-01T09:00:00Z","kind":"open"}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	bill, err := NewBill(records, rules(t, "ec2-2017"), lifeHistories(t))
	if err != nil || bill.Total != usd(t, "0.648") {
		t.Errorf("total %s, %v; want that of the killed cloud", bill.Total, err)
	}
	if got := bill.Lines[2]; got.Reason != CloudKilled || !got.Ended.Equal(t0.Add(2*time.Hour)) {
		t.Errorf("%+v", got)
	}
}

func TestRecorderContinuesAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.jsonl")
	if err := os.WriteFile(path, []byte(lifeRecords+`{"t":"2014-04-01T0`), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := openRecorder(path)
	if err != nil {
		t.Fatal(err)
	}
	if w.sessions() != 1 {
		t.Errorf("%d sessions before", w.sessions())
	}
	if err := errors.Join(w.write(Record{T: t0, Kind: Closed}), w.close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := lifeRecords + `{"t":"2014-04-01T00:00:00Z","kind":"close"}` + "\n"; err != nil || string(text) != want {
		t.Errorf("file:\n%s", text)
	}
}

func TestBillRefuses(t *testing.T) {
	launch := strings.Split(lifeRecords, "\n")[1] + "\n"
	end := strings.Split(lifeRecords, "\n")[4] + "\n"
	for name, text := range map[string]string{"launched twice": launch + launch, "no launch": end, "ended twice": launch + end + end} {
		records, err := ReadRecords(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if bill, err := NewBill(records, rules(t, "ec2-2017"), lifeHistories(t)); err == nil {
			t.Errorf("%s: %+v", name, bill)
		}
	}
	records, _ := ReadRecords(strings.NewReader(launch))
	if _, err := NewBill(records, rules(t, "ec2-2017"), nil); err == nil {
		t.Error("a bill without prices")
	}
}

func TestReadRecordsOfTheKilled(t *testing.T) {
	whole, err := ReadRecords(strings.NewReader(lifeRecords))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(lifeRecords) {
		got, err := ReadRecords(strings.NewReader(lifeRecords[:cut]))
		if want := strings.Count(lifeRecords[:cut], "\n"); err != nil || len(got) != want {
			t.Fatalf("cut at byte %d: %d records, %v; want %d", cut, len(got), err, want)
		}
	}
	var again bytes.Buffer
	for _, r := range whole {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again.Write(append(line, '\n'))
	}
	if again.String() != lifeRecords {
		t.Errorf("written again:\n%s", again.String())
	}
	if _, err := ReadRecords(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("nonsense: %v", err)
	}
}
