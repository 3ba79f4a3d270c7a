package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/drivers"
	"muster/internal/spec"
)

func (a *app) machinesAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add {--local N | NAME --mac MAC --power CONTROL}",
		Short: "Enrol machines",
		Long: `Enrol machines. --local N makes N machines of the controller's own host: each runs one node in Linux namespaces at native speed.
They share the host's CPUs and memory; --cpus and --memory limit each node.

NAME with --mac and --power enrols a whole machine, which boots over the network. Its power is switched by

` + drivers.Power().Help() + `
Put the BMC's user and password into a file in secrets.d of the controller's data directory, as user:password, with lines
"for HOST" below, and name it with --credentials secret:NAME. Root on that host may also name another file: file:/PATH is copied
there. ` + "`muster machines import`" + ` enrols many at once.`,
		Example: `  muster machines add --local 4 --wait
  muster machines add --local 2 --cpus 2 --memory 4GiB
  muster machines add r1n1 --mac 52:54:00:12:34:56 --power wol
  muster machines add r1n2 --mac 52:54:00:12:34:57 --power ipmi://10.0.9.2 --credentials secret:bmc --wait`,
		Args: cobra.MaximumNArgs(1),
	}
	var whole apiv1.NewMachine
	c.Flags().StringArrayVar(&whole.MACs, "mac", nil,
		"a `MAC` of a whole machine on the network that it boots from; may be repeated")
	c.Flags().StringArrayVar(&whole.Ports, "port", nil, "the switch `PORT` of each --mac, in the same order; may be repeated")
	c.Flags().StringVar(&whole.Power, "power", "", "the power `CONTROL` of a whole machine")
	c.Flags().StringVar(&whole.Credentials, "credentials", "",
		"where the controller finds user:password, the `SOURCE`: secret:NAME or env:BMC…")
	c.Flags().StringVar(&whole.Network, "network", "", "the `NETWORK` that a whole machine boots from (default: the only one)")
	count := c.Flags().Int(spec.IsolationLocal, 0, "make `N` machines of the controller's host")
	cpus := c.Flags().Int("cpus", 0, "`N` CPUs that a node may use (default: all of the host's)")
	size := c.Flags().String("memory", "",
		"memory `SIZE` that a node may use, such as 4GiB (default: 4GiB, or the host's if that is less)")
	waits := waitFlags(c, "they are available")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		switch {
		case len(args) == 1 && *count == 0 && len(whole.MACs) > 0 && whole.Power != "":
			whole.Name = args[0]
			return a.enrol(ctx, []apiv1.NewMachine{whole}, waits, output)
		case len(args) == 1 || len(whole.MACs) > 0 || whole.Power != "":
			return usage("a whole machine takes a name, --mac and --power, without --local")
		case *count < 1:
			return usage("say what to enrol: --local N with N from 1, or a whole machine's NAME with --mac and --power")
		}
		mebibytes, err := parseMemory(*size)
		if err != nil {
			return err
		}
		body := apiv1.AddMachinesBody{Substrate: spec.IsolationLocal, Count: *count, CPUs: *cpus, MemoryMiB: mebibytes}
		return a.addMachines(ctx, body, waits, output)
	})
}

func (a *app) addMachines(ctx context.Context, body apiv1.AddMachinesBody, waits *waiting, output *format) error {
	list, raw, err := apiv1.AddMachines.Call(ctx, a, apiv1.AddMachinesInput{Body: body})
	if err != nil {
		return err
	}
	if waits.wait {
		if list.Items, err = a.awaitMachines(ctx, waits, list.Items); err != nil {
			return err
		}
		raw = must(json.Marshal(list))
	}
	return output.print(a.out, raw, func() { a.printMachines(list.Items) })
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
	return 0, usage("--memory: %q is not a size: write a whole number with MiB, GiB or TiB, as in 4GiB", text)
}

// requested says what was asked of a machine that goes its own way from here.
func requested(m apiv1.Machine, what string) string {
	return fmt.Sprintf("machine %s: %s; it is %s", m.Name, what, m.Phase) + textIf(m.Node != "", " by "+m.Node)
}
