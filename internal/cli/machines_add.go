package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

func (a *app) machinesAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add --local N",
		Short: "Enrol machines",
		Long: `Enrol machines. --local N makes N of the controller's own host: each carries one node as Linux namespaces at native speed.
They share the host's CPUs and memory; --cpus and --memory limit what a node on one of them may use.`,
		Example: `  muster machines add --local 4 --wait
  muster machines add --local 2 --cpus 2 --memory 4GiB`,
		Args: cobra.NoArgs,
	}
	count := c.Flags().Int("local", 0, "make `N` machines of the controller's host")
	cpus := c.Flags().Int("cpus", 0, "`N` CPUs that a node may use (default: all of the host's)")
	size := c.Flags().String("memory", "", "memory `SIZE` that a node may use, such as 4GiB (default: 4GiB, or the host's if that is less)")
	waits := waitFlags(c, "they are available")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		if *count < 1 {
			return usage("say how many: --local N, with N from 1")
		}
		mebibytes, err := parseMemory(*size)
		if err != nil {
			return err
		}
		if err := waits.check(); err != nil {
			return err
		}
		controller, err := a.connect()
		if err != nil {
			return err
		}
		request := change(http.MethodPost, "/v1/machines", map[string]any{"substrate": "local", "count": *count, "cpus": *cpus, "memory_mib": mebibytes})
		request.key = "" // the API knows no keys here: a lost answer must not enrol twice
		var list api.List[api.Machine]
		raw, err := controller.do(ctx, request, &list)
		if err != nil {
			return err
		}
		if waits.wait {
			if list.Items, err = a.awaitMachines(ctx, controller, waits, list.Items); err != nil {
				return err
			}
			raw = must(json.Marshal(list))
		}
		return output.print(a.out, raw, func() { a.printMachines(list.Items) })
	})
	return c
}

// parseMemory is a size in MiB; 0 for none.
func parseMemory(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	for _, unit := range []struct {
		suffix string
		scale  int
	}{{"MiB", 1}, {"GiB", 1 << 10}, {"TiB", 1 << 20}} {
		number, fits := strings.CutSuffix(text, unit.suffix)
		if n, err := strconv.Atoi(number); fits && err == nil && n > 0 && n <= (64<<20)/unit.scale {
			return n * unit.scale, nil
		}
	}
	return 0, usage("--memory: %q is no size: write a whole number with MiB, GiB or TiB, as in 4GiB", text)
}

// requested says what was asked of a machine that goes its own way from here.
func requested(m api.Machine, what string) string {
	text := fmt.Sprintf("machine %s: %s; it is %s", m.Name, what, m.Phase)
	if m.Node != "" {
		text += " by " + m.Node
	}
	return text
}
