package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

// The report page of a run fits wide and narrow screens, has its charts, prints nothing to the console, loads nothing from elsewhere, and
// shows the figures of the report. The runs are the story of the tests and those whose report.json TIERML_REPORTS names. Pictures go to
// TIERML_PICTURES, if it is set, for inspection.
func TestReportPage(t *testing.T) {
	b := openTab(t)
	defer func() { b.t = t }()
	for name, report := range reports(t) {
		file := write(t, report)
		for _, width := range []int{1280, 390, 360} {
			t.Run(fmt.Sprintf("%s/%d", name, width), func(t *testing.T) {
				b.t, b.said = t, nil
				b.open("file://"+file, width)
				checkFits(b, width)
				checkCharts(b)
				checkFigures(b, report)
				if folder := os.Getenv("TIERML_PICTURES"); folder != "" {
					fail(t, os.MkdirAll(folder, 0o755))
					b.picture(filepath.Join(folder, fmt.Sprintf("%s-%d.png", name, width)))
				}
				if len(b.said) > 0 {
					t.Errorf("the page complains: %s", b.said)
				}
			})
		}
	}
}

// reports are rendered again, so that runs of an older program do not matter.
func reports(t *testing.T) map[string]*cost.Report {
	t.Helper()
	var ledger cost.Ledger
	told := journaltest.New(1)
	for _, e := range told.Entries {
		fail(t, ledger.Add(e))
	}
	story, err := ledger.Report(told.Entries[len(told.Entries)-1].T)
	fail(t, err)
	all := map[string]*cost.Report{"story": story}
	for _, file := range strings.Fields(os.Getenv("TIERML_REPORTS")) {
		text, err := os.ReadFile(file)
		fail(t, err)
		var r cost.Report
		fail(t, json.Unmarshal(text, &r))
		all[filepath.Base(filepath.Dir(file))] = &r
	}
	return all
}

func write(t *testing.T, r *cost.Report) (file string) {
	t.Helper()
	var b bytes.Buffer
	fail(t, page.Write(&b, r))
	file = filepath.Join(t.TempDir(), "report.html")
	fail(t, os.WriteFile(file, b.Bytes(), 0o644))
	return file
}

// checkFits checks that there is no sideways scrolling: on a narrow screen tables scroll in a frame of their own, on a wide one they fit.
func checkFits(b *tab, width int) {
	b.t.Helper()
	var got struct {
		Wide int
		Out  []string
	}
	b.eval(`(() => {
		const wide = document.documentElement.clientWidth, out = [];
		for (const e of document.body.querySelectorAll("*")) {
			if (e.closest(".scroll table, svg, .skip")) continue;
			const box = e.getBoundingClientRect();
			if (box.width > 0 && (box.right > wide + 0.5 || box.left < -0.5)) out.push(e.tagName + "." + e.className + " " + box.left + ".." + box.right);
		}
		if (wide > 1000)
			for (const frame of document.querySelectorAll("main > section > .scroll"))
				if (frame.scrollWidth > frame.clientWidth) out.push("what is in the frame " + frame.ariaLabel);
		return {Wide: document.documentElement.scrollWidth, Out: out};
	})()`, &got)
	if got.Wide > width || len(got.Out) > 0 {
		b.t.Errorf("the page is %d wide on a screen of %d; beyond its edges are %q", got.Wide, width, got.Out)
	}
}

// checkCharts checks that there are four charts with curves, each in the one size that fits, with texts inside that do not overlap.
func checkCharts(b *tab) {
	b.t.Helper()
	var charts []struct {
		Title           string
		Shown, Curves   int
		Outside, Across []string
	}
	b.eval(`[...document.querySelectorAll("figure")].map(figure => {
		const shown = [...figure.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().height > 100);
		const outside = [], across = [], seen = [];
		for (const svg of shown) {
			const frame = svg.getBoundingClientRect();
			for (const text of svg.querySelectorAll("text")) {
				const box = text.getBoundingClientRect();
				if (box.width === 0) continue;
				if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
					outside.push(text.textContent);
				for (const [other, name] of seen)
					if (box.left < other.right - 1 && other.left < box.right - 1 && box.top < other.bottom - 3 && other.top < box.bottom - 3)
						across.push(name + " / " + text.textContent);
				seen.push([box, text.textContent]);
			}
		}
		return {Title: figure.querySelector("h2").textContent, Shown: shown.length, Outside: outside, Across: across,
			Curves: shown.reduce((n, s) => n + s.querySelectorAll("path, polyline").length, 0)};
	})`, &charts)
	if len(charts) != 4 {
		b.t.Errorf("%d charts; want prices, machines, loss over time and over dollars", len(charts))
	}
	for _, c := range charts {
		if c.Shown != 1 || c.Curves == 0 || len(c.Outside) > 0 || len(c.Across) > 0 {
			b.t.Errorf("%s: %d sizes are shown, with %d curves; texts outside %q, on each other %q", c.Title, c.Shown, c.Curves, c.Outside, c.Across)
		}
	}
}

// checkFigures compares the displayed figures with the report.
func checkFigures(b *tab, r *cost.Report) {
	b.t.Helper()
	var summary string
	b.eval(`document.querySelector("section[aria-label=Summary]").innerText`, &summary)
	want := []string{
		r.Totals.Total.Cents(), r.Totals.Spot.Cents(), r.Totals.OnDemand.Cents(), r.Totals.Saving.Cents(),
		fmt.Sprintf("%.1f %%", r.Totals.SavingPercent), fmt.Sprint(r.Totals.Evictions),
	}
	if r.Training.TestLoss != nil {
		want = append(want, fmt.Sprintf("%.4f", *r.Training.TestLoss))
	}
	for _, figure := range want {
		if !strings.Contains(summary, figure) {
			b.t.Errorf("%s is not in the summary:\n%s", figure, summary)
		}
	}
	for label, rows := range map[string]int{"Pools": len(r.Pools), "Machines": len(r.Instances)} {
		var shown [][]string
		b.eval(`[...document.querySelectorAll("[aria-label=" + `+quoted(label)+` + "] tbody tr")].map(
			row => [...row.cells].map(cell => cell.textContent))`, &shown)
		if len(shown) != rows {
			b.t.Errorf("%s: %d rows; the report has %d", label, len(shown), rows)
			continue
		}
		for i, cells := range shown {
			var paid string
			switch label {
			case "Pools":
				paid = r.Pools[i].USD.Cents()
			case "Machines":
				paid = "$" + r.Instances[i].USD.String()
			}
			if !strings.Contains(strings.Join(cells, "\n")+"\n", "\n"+paid+"\n") {
				b.t.Errorf("%s: %q does not say %s", label, cells, paid)
			}
		}
	}
	var events, loads int
	b.eval(`document.querySelectorAll(".events li").length`, &events)
	b.eval(`performance.getEntriesByType("resource").filter(e => !e.name.startsWith(location.origin + "/")).length`, &loads)
	if events != len(r.Events) || loads != 0 {
		b.t.Errorf("%d events are shown of %d; %d things are loaded from elsewhere", events, len(r.Events), loads)
	}
}
