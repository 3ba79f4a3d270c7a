package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/bench/papers"
	"muster/internal/bench/report"
	"muster/internal/kit/words"
)

// mostReported is how many runs a page is about; each is read with all its samples.
const mostReported = 20

func (a *app) benchReport() *cobra.Command {
	c := &cobra.Command{
		Use:   "report RUN… -f FILE",
		Short: "Write a page about runs, that needs nothing else",
		Long: `Write a page about runs: what they have measured, in words, tables and figures, what failed, on what it ran, how it was done, and
all samples to download. It is one file, which needs no network. The run with which one was done in turns is on the page, too, and
so is the comparison; two other runs are compared if they are all there is. A file whose name ends in .md is Markdown.
With --papers it begins with what papers have published, beside what the runs of their suites show of it: their tables and figures,
and which of their claims are seen here, too.`,
		Example: `  muster bench report b0123456789 -f report.html
  muster bench report b0123456789 b9876543210 -f report.md
  muster bench report --papers b0123456789 -f papers.html`,
		Args: cobra.MinimumNArgs(1),
	}
	file := c.Flags().StringP("file", "f", "", "the `FILE` to write, or - for standard output")
	beside := c.Flags().Bool("papers", false, "show what papers have published beside runs of their suites")
	margin := c.Flags().Float64("margin", 2, "by how many `PERCENT` sides may be off and still be equal")
	return a.verb(c, func(ctx context.Context, args []string) error {
		switch {
		case *file == "":
			return usage("say where to write it: -f report.html")
		case *margin < 0 || *margin > 100:
			return usage("--margin is from 0 to 100")
		case len(args) > mostReported:
			return usage("%d runs are too many for a page: %d are the most", len(args), mostReported)
		}
		r := report.Report{Made: time.Now(), Version: Version()}
		if err := gather(ctx, a, &r, args, *margin/100); err != nil {
			return err
		}
		if *beside {
			var err error
			if r.Papers, err = published(r); err != nil {
				return err
			}
		}
		write := r.HTML
		if strings.HasSuffix(*file, ".md") {
			write = r.Markdown
		}
		text, err := write()
		if err != nil {
			return err
		}
		if *file == "-" {
			_, err = a.foreign().Write(text)
			return err
		}
		if err := os.WriteFile(*file, text, 0o666); err != nil {
			return err
		}
		a.say("%s is about %s: %s", *file, words.Count(len(r.Runs), "run"), words.Size(int64(len(text))))
		return nil
	})
}

// published are the papers whose suites these runs are of, beside them.
func published(r report.Report) (pages []papers.Page, err error) {
	all, err := papers.All()
	if err != nil {
		return nil, err
	}
	var suites []string
	for _, p := range all {
		suites = append(suites, p.Suite)
		if !slices.ContainsFunc(r.Runs, func(one export.Run) bool { return one.Suite == p.Suite }) {
			continue
		}
		page, err := p.BesideRuns(r.Runs, r.Comparisons)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	if len(pages) == 0 {
		return nil, usage("--papers is for runs of papers' suites, which are %s", strings.Join(suites, ", "))
	}
	return pages, nil
}

// gather reads runs, those done in turns with them, and comparisons.
func gather(ctx context.Context, c apiv1.Client, r *report.Report, ids []string, margin float64) error {
	for i := 0; i < len(ids); i++ {
		b, _, err := apiv1.GetBenchmark.Call(ctx, c, apiv1.BenchmarkRef{Benchmark: ids[i]})
		if err != nil {
			return err
		}
		one, err := measuredBy(ctx, c, b, true)
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, one)
		if b.Peer != "" && !slices.Contains(ids, b.Peer) && len(ids) < mostReported {
			ids = append(ids, b.Peer)
		}
	}
	for i, one := range r.Runs {
		other := slices.IndexFunc(r.Runs, func(o export.Run) bool { return o.ID == one.Peer })
		in := apiv1.CompareBenchmarksInput{BenchmarkRef: apiv1.BenchmarkRef{Benchmark: one.ID}, Margin: margin}
		switch {
		case other > i: // the API says which is A
		case other < 0 && len(r.Runs) == 2 && i == 0 && r.Runs[1].Peer == "":
			in.With = r.Runs[1].ID
		default:
			continue
		}
		both, _, err := apiv1.CompareBenchmarks.Call(ctx, c, in)
		if err != nil {
			return err
		}
		r.Comparisons = append(r.Comparisons, both)
	}
	return nil
}
