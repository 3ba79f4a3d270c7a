package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
	"muster/internal/drivers"
	"muster/internal/spec"
)

// columns of a list of machines; the first three must be there.
var columns = []string{"name", "macs", "power", "network", "credentials", "ports"}

func (a *app) machinesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Enrol the machines of a list",
		Long: `Enrol the whole machines that a CSV file lists, as a vendor delivers it or ` + "`muster rack up`" + ` writes it: all of them or, if anything is
wrong, none. The first line names the columns:

  name         of the machine
  macs         of its NICs on the network that it boots from, separated by spaces
  network      that it boots from; may be left out if there is only one
  power        how it is switched: ` + drivers.Power().Usages() + `
  credentials  where the controller finds user:password: secret:NAME or env:BMC…; never the password itself
  ports        of the network's switch, one for each MAC, separated by spaces; needed if the network has a switch that Muster sets

A FILE of - is standard input.`,
		Example: `  muster machines import rack.csv
  muster machines import rack.csv --wait`,
		Args: cobra.ExactArgs(1),
	}
	waits := waitFlags(c, "they are available")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		name, text, err := a.readText("the list of machines", args[0])
		if err != nil {
			return err
		}
		machines, err := readMachines(name, text)
		if err != nil {
			return err
		}
		return a.enrol(ctx, machines, waits, output)
	})
	return c
}

// enrol adds whole machines.
func (a *app) enrol(ctx context.Context, machines []apiv1.NewMachine, waits *waiting, output *format) error {
	if err := waits.check(); err != nil {
		return err
	}
	controller, err := a.connect()
	if err != nil {
		return err
	}
	if err := a.onlyNetwork(ctx, controller, machines); err != nil {
		return err
	}
	if err := a.namedSecrets(machines); err != nil {
		return err
	}
	body := apiv1.AddMachinesBody{Substrate: spec.IsolationMetal, Machines: machines}
	list, raw, err := apiv1.AddMachines.Call(ctx, controller, apiv1.AddMachinesInput{Body: body})
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
}

// onlyNetwork fills in the network where there is no choice.
func (a *app) onlyNetwork(ctx context.Context, c *client, machines []apiv1.NewMachine) error {
	if !slices.ContainsFunc(machines, func(m apiv1.NewMachine) bool { return m.Network == "" }) {
		return nil
	}
	networks, _, err := apiv1.All(ctx, c, apiv1.ListNetworks, apiv1.Page{})
	if err != nil {
		return err
	}
	switch len(networks) {
	case 0:
		return usage("there is no network to boot from; `muster networks add` declares one")
	case 1:
	default:
		return usage("there are several networks: say which the machines boot from")
	}
	for i := range machines {
		if machines[i].Network == "" {
			machines[i].Network = networks[0].Name
		}
	}
	return nil
}

// readMachines reads a list of machines. Errors say the line and the column.
func readMachines(file string, text []byte) ([]apiv1.NewMachine, error) {
	reader := csv.NewReader(bytes.NewReader(text))
	reader.TrimLeadingSpace, reader.Comment = true, '#'
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, usage("%s: is empty; its first line must name the columns: %s", file, strings.Join(columns, ","))
	}
	if err != nil {
		return nil, badList(file, err)
	}
	index := map[string]int{}
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")) // spreadsheets write a byte order mark
		line, column := reader.FieldPos(i)
		if _, twice := index[name]; twice || !slices.Contains(columns, name) {
			return nil, usage("%s:%d:%d: %q is no column, or is there twice; the columns are %s", file, line, column, name,
				strings.Join(columns, ","))
		}
		index[name] = i
	}
	for _, needed := range columns[:3] {
		if _, ok := index[needed]; !ok {
			return nil, usage("%s:1: column %s is missing; the columns are %s", file, needed, strings.Join(columns, ","))
		}
	}
	var machines []apiv1.NewMachine
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badList(file, err)
		}
		field := func(name string) string {
			if i, ok := index[name]; ok {
				return strings.TrimSpace(record[i])
			}
			return ""
		}
		m := apiv1.NewMachine{Name: field("name"), MACs: strings.Fields(field("macs")), Network: field("network"),
			Power: field("power"), Credentials: field("credentials"), Ports: strings.Fields(field("ports"))}
		for _, needed := range columns[:3] {
			if field(needed) == "" {
				line, column := reader.FieldPos(index[needed])
				return nil, usage("%s:%d:%d: %s is missing", file, line, column, needed)
			}
		}
		machines = append(machines, m)
	}
	if len(machines) == 0 {
		return nil, usage("%s: lists no machine", file)
	}
	return machines, nil
}

func badList(file string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return usage("%s:%d:%d: %v", file, parse.Line, parse.Column, parse.Err)
	}
	return fmt.Errorf("%s: %w", file, err)
}
