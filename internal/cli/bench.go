package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/bench/recipe"
	"muster/internal/kit/words"
)

func (a *app) bench() *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Run benchmarks on clusters, and show what they measured",
		Long: `A recipe says how a benchmark is run on a cluster and how its figures are read from what it writes. A suite is a list of
recipes that are run together, in several rounds.`,
		Example: `  muster bench list
  muster bench run --suite quick hello --wait
  muster bench show b0123456789`,
	}, a.benchList(), a.benchRun(), a.benchRuns(), a.benchShow(), a.benchCompare(), a.benchOutput(), a.benchCancel(),
		a.benchReport(), a.benchExport(), a.benchWatch(), a.benchHistory(), a.benchChanges(), a.benchAccept(), a.benchValidate(),
		a.benchSchema())
}

func (a *app) benchValidate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check recipes and suites, without a controller",
		Long: `Check recipes and suites without asking a controller. Every error is printed with its line, its column and what would work; the
exit code is then 2. If there is a sample of what a recipe's command wrote beside it, such as stream.out beside stream.yaml, it
is read as a run's output would be, and what was read is shown. The recipes of a suite are looked for when it is used.`,
		Example: `  muster bench validate stream.yaml
  muster bench validate *.yaml`,
		Args: cobra.MinimumNArgs(1),
	}
	return a.verb(c, func(_ context.Context, args []string) error {
		for _, file := range args {
			if err := a.validateBench(file); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) benchSchema() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema {recipe|suite}",
		Short: "Print the JSON Schema of recipes or suites",
		Long: `Print the JSON Schema (2020-12) of recipes or of suites. With it, an editor completes and checks them as you type. What a
schema cannot say, such as whether an expression can be used, ` + "`muster bench validate`" + ` checks.`,
		Example: `  muster bench schema recipe > recipe.schema.json
  muster bench schema suite > suite.schema.json`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"recipe", "suite"},
	}
	return a.verb(c, func(_ context.Context, args []string) error {
		form := recipe.Form()
		if args[0] == "suite" {
			form = recipe.SuiteForm()
		}
		_, err := a.out.raw().Write(form.Schema("Muster " + args[0]))
		return err
	})
}

// validateBench checks a recipe with its sample, or a suite.
func (a *app) validateBench(path string) error {
	name, text, err := a.readText("the recipe", path)
	if err != nil {
		return err
	}
	if recipe.IsSuite(text) {
		s, err := recipe.ParseSuite(name, text)
		if err != nil {
			return err
		}
		a.say("%s is a valid suite: %s, %s", name, words.Count(len(s.Entries), "recipe"), words.Count(s.Rounds, "round"))
		return nil
	}
	r, err := recipe.Parse(name, text)
	if err != nil {
		return err
	}
	steps, err := r.Steps(recipe.Example())
	if err != nil {
		return err // it was parsed, with that shape
	}
	a.say("%s is a valid recipe: %s", name, words.Count(len(steps), "step"))
	base, named := strings.CutSuffix(path, ".yaml")
	sample := base + ".out"
	output, err := os.ReadFile(sample)
	if !named || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	out := recipe.Output{"": string(output)}
	for _, file := range steps[0].Wanted() { // the sample stands for all that the step leaves
		out[file] = string(output)
	}
	result := steps[0].Result(out)
	for _, s := range result.Samples {
		a.out.line("%s %g %s", steps[0].Series(s), s.Value, s.Unit)
	}
	if len(result.Wrong) > 0 {
		return usage("%s: %s", sample, strings.Join(result.Wrong, "; "))
	}
	return nil
}
