package papers

import (
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
)

func TestLimitsAreOfWhatNodesSay(t *testing.T) {
	r := run("a", "s", "bare metal", map[string]float64{"hpcc hpl nodes=1 NB=64": 200, "hpcc hpl nodes=2 NB=64": 300,
		"tcp tcp": 1, "stream-kernels triad": 1})
	of := map[string]string{"clock-rate": "2600", "blas": "Cooperlake", "speed.eth0": "25000", "driver.eth0": "ice",
		"speed.eth1": "10000", "driver.eth1": "veth", "rate.mlx5_0.ports.1": "", "host-memory": "8 of 32768 MiB at 3200 MT/s, 8 of 16384 MiB at 2400 MT/s"}
	r.History = []apiv1.BenchmarkRound{{Before: map[string]map[string]string{"n1": of},
		After: map[string]map[string]string{"n1": {}}}}
	bounds := limitsOf(r)
	for _, c := range []struct {
		of, unit, why string
		want          float64
	}{
		{"hpcc hpl nodes=2", "GFLOP/s", "32 operations a cycle at 2600 MHz", 2600 * 32 * 8 / 1e3},
		{"hpcc hpl nodes=1", "TFLOP/s", "32 operations", 2600 * 32 * 4 / 1e6},
		{"stream-kernels triad", "MB/s", "16 memory modules", 8 * 8 * (3200 + 2400)},
		{"tcp tcp", "Gbit/s", "a link of 25 Gbit/s", 25},
	} {
		chosen, err := parse(c.of)
		if err != nil {
			t.Fatal(err)
		}
		m := measured{recipe: chosen.recipe, quantity: chosen.quantity, of: map[string]string{"cores": "8"}}
		if strings.HasSuffix(c.of, "nodes=1") {
			m.of["cores"] = "4"
		}
		if got, why, known := bounds.of(chosen, m, c.unit); !known || !near(got.Value, c.want) || !strings.Contains(why, c.why) {
			t.Errorf("%s: %+v, %s", c.of, got, why)
		}
	}
	for _, text := range []string{"hpcc hpl per=core", "hpcc fft", "tcp tcp best=connections"} {
		chosen, _ := parse(text)
		if got, _, known := bounds.of(chosen, measured{recipe: chosen.recipe, quantity: chosen.quantity}, "GFLOP/s"); known {
			t.Errorf("%s: %+v", text, got)
		}
	}
	p := Paper{Suite: "s", Panels: []Panel{
		{Unit: "GFLOP/s", Each: Parts{{"", "hpcc hpl nodes=most"}}, Rows: []Row{{"then", []Span{{1, 1}}}}},
		{Unit: "GFLOP/s", Each: Parts{{"", "hpcc hpl"}}, X: "cores"},
	}}
	page, err := p.BesideRuns([]export.Run{r}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if own := page.Shown[0].Own; len(own) != 2 || !own[1].Limit || own[1].Cells[0].Value != 665.6 || page.Beside != 1 {
		t.Errorf("%+v", own)
	}
	if lines := page.Shown[1].Lines; len(lines) != 2 || !lines[1].Limit || len(lines[1].Points) != 2 ||
		lines[1].Points[0].Value != 332.8 {
		t.Errorf("%+v", lines)
	}
	if got := limitsOf(export.Run{}); len(got) > 0 {
		t.Errorf("who has said nothing has limits: %+v", got)
	}
}
