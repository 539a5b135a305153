package gce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/providers"
	"github.com/tierml/tierml/providers/boot/boottest"
	"github.com/tierml/tierml/provisioner"
)

// On Compute Engine a machine fetches the program from Google's store with its own account, and tells the agent its owner. The script
// contains no secrets.
func TestStartupScript(t *testing.T) {
	boottest.Need(t, "bash", "curl", "sha256sum", "sed")
	const program = "#!/bin/bash\necho \"$1 on $TIERML_PROVIDER\" >>ran\n"
	var asked []string
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/service-accounts/default/token") && r.Header.Get("Metadata-Flavor") == "Google":
			_, _ = w.Write([]byte(`{"access_token": "ya29.a_b-c", "expires_in": 3599, "token_type": "Bearer"}`))
		case r.Header.Get("Authorization") == "Bearer ya29.a_b-c":
			asked = append(asked, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
			_, _ = w.Write([]byte(program))
		default:
			http.Error(w, "no", http.StatusForbidden)
		}
	}))
	defer served.Close()
	sum := sha256.Sum256([]byte(program))
	home := t.TempDir()
	cmd := exec.Command("bash", "-c", startupScript(&config.Installation{Program: config.Program{URL: "gs://bucket/program/tierml-1", SHA256: hex.EncodeToString(sum[:])}}, providers.Open, 30))
	host := strings.TrimPrefix(served.URL, "http://")
	cmd.Dir = home // the timer's file is written where the script begins
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIERML_HOME=" + home, "TIERML_POWER_OFF=touch off", "GCE_METADATA_HOST=" + host,
		"STORAGE_EMULATOR_HOST=" + host}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if ran, _ := os.ReadFile(filepath.Join(home, "ran")); string(ran) != "agent on gce\n" {
		t.Errorf("it ran %q\n%s", ran, out)
	}
	if _, err := os.Stat(filepath.Join(home, "off")); err != nil {
		t.Errorf("the machine stays: %v", err)
	}
	if strings.Join(asked, " ") != "/storage/v1/b/bucket/o/program%2Ftierml-1?alt=media" {
		t.Errorf("asked %q", asked)
	}
}

// account is as much of Compute Engine as a plan needs.
type account struct {
	prices map[market.Pool][]market.PricePoint
	err    error
	advice error
	quotas []provisioner.Quota
	// spots and unlisted refuse the history of Spot prices and the price list.
	spots, unlisted error
}

func (a account) Zones(context.Context) ([]string, error) {
	return []string{"us-central1-a", "us-central1-b"}, a.err
}

func (a account) Types(context.Context, string) ([]market.InstanceType, error) {
	return []market.InstanceType{{Name: "n2-standard-4", VCPU: 4, MemoryMiB: 16 << 10}, {Name: "e2-micro", VCPU: 2, MemoryMiB: 1 << 10}}, a.err
}

func (a account) SpotPrices(_ context.Context, pools []market.Pool, _, _ time.Time) (map[market.Pool][]market.PricePoint, error) {
	found := map[market.Pool][]market.PricePoint{}
	for _, p := range pools {
		if a.prices[p] != nil {
			found[p] = a.prices[p]
		}
	}
	return found, errors.Join(a.err, a.spots)
}

func (a account) PriceList(_ context.Context, page func([]byte) (bool, error)) error {
	if a.unlisted != nil {
		return a.unlisted
	}
	sku := func(what, usage, unit string, nanos int) string {
		return fmt.Sprintf(`{"description":"%s running in Iowa","category":{"resourceFamily":"Compute","usageType":"%s"},"serviceRegions":["us-central1"],"pricingInfo":[`+
			`{"effectiveTime":"2026-02-01T00:00:00Z","pricingExpression":{"usageUnit":"%s","tieredRates":[{"unitPrice":{"currencyCode":"USD","units":"0","nanos":%d}}]}}]}`,
			what, usage, unit, nanos)
	}
	for _, list := range []string{
		sku("N2 Instance Core", "OnDemand", "h", 31611000) + "," + sku("N2 Instance Ram", "OnDemand", "GiBy.h", 4237000),
		sku("Spot Preemptible N2 Instance Core", "Preemptible", "h", 7650000) + "," + sku("Spot Preemptible N2 Instance Ram", "Preemptible", "GiBy.h", 1025000),
	} {
		if _, err := page([]byte(`{"skus":[` + list + `]}`)); err != nil {
			return err
		}
	}
	return nil
}

// Without a catalog the price list is queried: on-demand prices for the machines of the job's zones, and, if the history of Spot prices may
// not be read, those of the list, in the plan and in the run.
func TestGCEMarketOfThePriceList(t *testing.T) {
	job := &config.Job{Cloud: Name, Block: &Block{Installation: config.Installation{Region: "us-central1"}},
		Resources: config.Resources{Count: config.Exactly(3), AnyOf: []config.Machine{{Type: "n2-standard-4"}}},
		Local:     config.Local{Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}}
	folder := t.TempDir()
	m, err := soldTo(t.Context(), job, account{spots: provisioner.ErrDenied}, folder)
	if err != nil {
		t.Fatal(err)
	}
	offers, _ := m.Offers()
	if len(offers) != 2 || offers[0].Type.OnDemand != 194_236_000 || offers[0].Pool.Zone != "us-central1-a" {
		t.Fatalf("%+v", offers)
	}
	if price, ok := offers[1].History.At(job.Local.Start); !ok || price != 47_000_000 {
		t.Errorf("Spot price %s, %v", price, ok)
	}
	said := strings.Join(m.Sources, "\n")
	if !strings.Contains(said, "On-demand prices: Cloud Billing Catalog of us-central1, asked 2026-03-01 00:00 UTC.") || !strings.Contains(said, "Spot prices: the same list") {
		t.Error(said)
	}
	point := map[market.Pool][]market.PricePoint{gcePool("us-central1-b", "n2-standard-4"): {{At: job.Local.Start, Price: market.Dollar / 25}}}
	if m, err = soldTo(t.Context(), job, account{prices: point, unlisted: errors.New("not asked again")}, folder); err != nil || len(m.Trace.Markets) != 1 {
		t.Errorf("with a history, and a list that is kept: %v", err)
	}
	job.Reliable.Type = "e2-micro"
	if _, err := soldTo(t.Context(), job, account{prices: point}, ""); err == nil || !strings.Contains(err.Error(), "no price of e2-micro in us-central1") ||
		!strings.Contains(err.Error(), "gce.catalog") {
		t.Errorf("a type that is not on the list: %v", err)
	}
	if _, err := soldTo(t.Context(), job, account{unlisted: provisioner.ErrDenied}, ""); !errors.Is(err, provisioner.ErrDenied) || !strings.Contains(err.Error(), "gce.catalog") {
		t.Errorf("no list: %v", err)
	}
}

func (a account) CapacityAdvice(_ context.Context, p market.Pool, machines int) (provisioner.CapacityAdvice, bool, error) {
	if machines != 6 {
		return provisioner.CapacityAdvice{}, false, nil
	}
	return provisioner.CapacityAdvice{Obtainability: map[string]float64{"us-central1-a": 0.3, "us-central1-b": 0.8}[p.Zone], Uptime: 10 * time.Minute}, true, a.advice
}

// Compute Engine's capacity information reaches the pools' hints; missing information is reported, and nothing fails.
func TestHintsOfGCE(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	catalog := market.NewCatalog("us-central1", []market.InstanceType{{Name: "n2-standard-4", VCPU: 4, MemoryMiB: 16384, OnDemand: market.Dollar / 5}})
	prices := map[market.Pool][]market.PricePoint{}
	for _, zone := range []string{"us-central1-a", "us-central1-b"} {
		prices[gcePool(zone, "n2-standard-4")] = []market.PricePoint{{At: at, Price: market.Dollar / 20}}
	}
	fresh := func() (*local.Market, *config.Job) {
		return &local.Market{Catalog: catalog, Trace: &trace.Trace{Markets: trace.Of(prices)}},
			&config.Job{Cloud: Name, Block: &Block{}, Resources: config.Resources{VCPU: 22, AnyOf: []config.Machine{{Type: "n2-standard-4"}}}, Local: config.Local{Start: at}}
	}
	m, job := fresh()
	forecast(t.Context(), m, job, account{})
	offers, _ := m.Offers()
	ten := bidding.Hint{Value: 1.0 / 6, At: at}
	for i, want := range []bidding.Hints{{Placement: bidding.Hint{Value: 3, At: at}, Uptime: ten}, {Placement: bidding.Hint{Value: 8, At: at}, Uptime: ten}} {
		if offers[i].Hints != want {
			t.Errorf("%s: %+v, want %+v", offers[i].Pool, offers[i].Hints, want)
		}
	}
	if want := "Capacity for 6 machines: Compute Engine, asked now, of 2 pools; unlikely to be had in 1."; !slices.Equal(m.Sources, []string{want}) {
		t.Errorf("sources %q", m.Sources)
	}
	m, job = fresh()
	job.Resources.Zones = []string{"us-central1-b"}
	if forecast(t.Context(), m, job, account{}); len(m.Told) != 1 {
		t.Errorf("in one zone: %v", m.Told)
	}
	m, job = fresh()
	if forecast(t.Context(), m, job, account{advice: errors.New("not allowed")}); !slices.Equal(m.Sources, []string{"Capacity: unknown; not allowed."}) {
		t.Errorf("denied: %q", m.Sources)
	}
	m, job = fresh()
	job.Resources.Count = config.Exactly(5)
	if forecast(t.Context(), m, job, account{}); len(m.Told)+len(m.Sources) != 0 {
		t.Errorf("not told: %v", m.Told)
	}
}

func gcePool(zone, kind string) market.Pool {
	return market.Pool{Provider: "gce", Region: "us-central1", Zone: zone, Type: kind, Class: market.Spot}
}

// The market of a job is its own price list, in every zone of the region, or otherwise what the API reports about suitable types.
func TestMarket(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"catalog.csv": "region,instance_type,vcpu,memory_gib,linux_ondemand_usd_hour\n" +
			"us-central1,n2-standard-4,4,16,0.194\nus-central1,n2-standard-16,16,64,0.777\nus-east1,n2-standard-4,4,16,0.194\n",
		"prices.csv": "timestamp,zone,instance_type,product,price\n2026-01-01T00:00:00Z,us-central1-b,n2-standard-4,Linux/UNIX,0.047\n" +
			"2026-01-01T00:00:00Z,us-east1-b,n2-standard-4,Linux/UNIX,0.04\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job := &config.Job{Cloud: Name, Block: &Block{Installation: config.Installation{Region: "us-central1", Catalog: filepath.Join(dir, "catalog.csv")}},
		Resources: config.Resources{AnyOf: []config.Machine{{CPUs: config.CPUs{Count: 4}}}},
		Local:     config.Local{Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}}
	point := []market.PricePoint{{At: job.Local.Start.Add(-time.Hour), Price: market.Dollar / 20}}
	told := account{prices: map[market.Pool][]market.PricePoint{
		gcePool("us-central1-a", "n2-standard-4"): point, gcePool("us-central1-a", "n2-standard-16"): point}}
	pools := func(listed []trace.Market) (names []string) {
		for _, m := range listed {
			names = append(names, m.Pool.Zone+"/"+m.Pool.Type)
		}
		return names
	}
	m, err := soldTo(t.Context(), job, told, "")
	if err != nil || strings.Join(pools(m.Trace.Markets), " ") != "us-central1-a/n2-standard-4" {
		t.Errorf("told: %v, %v", m, err)
	}
	blockOf(job).Prices = filepath.Join(dir, "prices.csv")
	if m, err = soldTo(t.Context(), job, told, ""); err != nil || strings.Join(pools(m.Trace.Markets), " ") != "us-central1-b/n2-standard-4" {
		t.Errorf("listed: %v, %v", m, err)
	}
	blockOf(job).Region = "us-west4"
	if _, err := soldTo(t.Context(), job, told, ""); err == nil || !strings.Contains(err.Error(), "has no Spot prices in us-west4") {
		t.Errorf("of another region: %v", err)
	}
	blockOf(job).Region, blockOf(job).Prices = "us-central1", ""
	if _, err := soldTo(t.Context(), job, account{}, ""); err == nil || !strings.Contains(err.Error(), "gce.prices") {
		t.Errorf("told nothing: %v", err)
	}
	if _, err := soldTo(t.Context(), job, account{err: provisioner.ErrDenied}, ""); err == nil {
		t.Error("a refusal is no market")
	}
	if err := try(t.Context(), told, []market.Pool{gcePool("us-central1-a", "n2-standard-4")}); err != nil {
		t.Error(err)
	}
	if err := try(t.Context(), told, []market.Pool{gcePool("us-central1-a", "n2-standard-5")}); err == nil {
		t.Error("it sells what there is not")
	}
}

// A plan's prices are answered as the provider does: the price in force first, and then its changes.
func TestPlannedPrices(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	pool := gcePool("us-central1-a", "n2-standard-4")
	prices := providers.Planned{pool: market.NewHistory([]market.PricePoint{
		{At: start, Price: 1}, {At: start.Add(time.Hour), Price: 2}, {At: start.Add(2 * time.Hour), Price: 3}, {At: start.Add(5 * time.Hour), Price: 4}})}
	got, err := prices.SpotPrices(t.Context(), []market.Pool{pool, gcePool("us-central1-b", "n2-standard-4")}, start.Add(90*time.Minute), start.Add(3*time.Hour))
	if err != nil || len(got) != 1 || len(got[pool]) != 2 || got[pool][0].Price != 2 || got[pool][1].Price != 3 {
		t.Errorf("%v, %v", got, err)
	}
}

// refusing is a provider that refuses queries for prices.
type refusing struct {
	providers.Account
	asked int
	err   error
}

func (r *refusing) SpotPrices(context.Context, []market.Pool, time.Time, time.Time) (map[market.Pool][]market.PricePoint, error) {
	r.asked++
	return nil, r.err
}

func (r *refusing) Traits() provisioner.Traits { return provisioner.Traits{Leases: true} }

// A run that may not read the price history uses the list, and makes no more queries; leases are renewed behind the list, too.
func TestPlannedPricesReplaceDeniedHistory(t *testing.T) {
	start, pool := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), gcePool("us-central1-a", "n2-standard-4")
	cloud := &refusing{err: provisioner.ErrTemporary}
	o := &orPlanned{Account: cloud, planned: providers.Planned{pool: market.NewHistory([]market.PricePoint{{At: start, Price: market.Dollar}})}}
	ask := func() (int, error) {
		prices, err := o.SpotPrices(t.Context(), []market.Pool{pool}, start, start.Add(time.Hour))
		return len(prices[pool]), err
	}
	if _, err := ask(); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("a failure that passes: %v", err)
	}
	cloud.err = provisioner.ErrDenied
	for range 2 {
		if n, err := ask(); n == 0 || err != nil {
			t.Errorf("%d prices, %v", n, err)
		}
	}
	if cloud.asked != 2 {
		t.Errorf("asked %d times, want 2", cloud.asked)
	}
	if !o.Traits().Leases {
		t.Error("leases are not renewed")
	}
}
func (a account) Quotas(context.Context) ([]provisioner.Quota, error) {
	if a.quotas == nil {
		return nil, errors.New("not allowed")
	}
	return a.quotas, nil
}

// A plan warns of a quota that is lower than the job's maximum, with the figures and how to raise it; but not of an unknown one.
func TestLimits(t *testing.T) {
	sells := func(provider, region, kind string) *local.Market {
		pool := market.Pool{Provider: provider, Region: region, Zone: region + "a", Type: kind, Class: market.Spot}
		return &local.Market{Catalog: market.NewCatalog(region, []market.InstanceType{{Name: kind, VCPU: 4, MemoryMiB: 8192, OnDemand: market.Dollar}}),
			Trace: &trace.Trace{Markets: trace.Of(map[market.Pool][]market.PricePoint{pool: {{At: time.Unix(0, 0), Price: market.Dollar / 5}}})}}
	}
	for name, c := range map[string]struct {
		quotas []provisioner.Quota
		words  string
	}{
		"enough":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 32}}, ""},
		"in use":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}, {Name: "PREEMPTIBLE_CPUS", Limit: 40, Used: 20}}, "32 vCPUs of the quota PREEMPTIBLE_CPUS in us-central1, and 20 of its 40 are free"},
		"shared":   {[]provisioner.Quota{{Name: "CPUS", Limit: 24}}, "36 vCPUs of the quota CPUS in us-central1, and 24 of its 24 are free"},
		"not told": {nil, ""},
	} {
		m := sells("gce", "us-central1", "n2-standard-4")
		job := &config.Job{Block: &Block{Installation: config.Installation{Region: "us-central1"}}, Resources: config.Resources{Count: config.Exactly(8), AnyOf: []config.Machine{{Type: "n2-standard-4"}}}, Reliable: config.Reliable{Count: 1}}
		warnOfQuotas(t.Context(), m, job, account{quotas: c.quotas})
		if text := strings.Join(m.Warnings, "\n"); (text == "") != (c.words == "") || !strings.Contains(text, c.words) {
			t.Errorf("%s: %q, want %q", name, text, c.words)
		}
	}
}
