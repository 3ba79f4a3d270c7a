package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/kit/lists"
	"muster/internal/rack"
)

func (a *app) rackList() *cobra.Command {
	c := listVerb("List the machines of the virtual rack",
		`List the rack's machines: on or off and since when, their power control, and their injected faults.`,
		`  muster rack list
  muster rack list -o json`)
	dir, output := rackFlag(c), formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		state, err := dir.Look(ctx)
		if err != nil {
			return err
		}
		return output.print(a.out, must(json.Marshal(state)), func() { a.printRack(state) })
	})
}

func (a *app) printRack(state rack.State) {
	t := newTable("NAME", "STATE", "FOR", "FIRMWARE", "POWER", "BMC", "MAC", "FAULTS")
	for _, m := range state.Machines {
		t.row(m.Name, m.State, textOf(m.Since, age), m.Firmware, m.Power, textIf(m.BMC.IsValid(), m.BMC.String()),
			strings.Join(m.MACs, " "), strings.Join(m.Faults, " "))
	}
	t.print(a.out)
}

func (a *app) rackConsole() *cobra.Command {
	c := &cobra.Command{
		Use:   "console NAME",
		Short: "Show the console of a machine of the virtual rack",
		Long: `Print a machine's serial console since it was last switched on, even if it is off now. With -f, follow it until interrupted, also
while the machine is switched off and on again.`,
		Example: `  muster rack console rack-1
  muster rack console rack-1 -f`,
		Args: cobra.ExactArgs(1),
	}
	dir := rackFlag(c)
	c.ValidArgsFunction = completeRack(dir, 1)
	follow := c.Flags().BoolP("follow", "f", false, "follow the console until interrupted")
	return a.verb(c, func(ctx context.Context, args []string) error {
		return dir.Console(ctx, args[0], *follow, &plainText{to: a.out.prose()})
	})
}

// plainText writes what a machine's console says without what would move the cursor or clear the screen, as firmware does:
// control characters, and escape sequences (ECMA-48, section 5.4).
type plainText struct {
	to    io.Writer
	state escapeState
}

type escapeState int

const (
	inText escapeState = iota
	afterEscape
	inSequence
)

func (p *plainText) Write(text []byte) (int, error) {
	kept := make([]byte, 0, len(text))
	for _, b := range text {
		switch {
		case b == 0x1b:
			p.state = afterEscape
		case p.state == afterEscape && b == '[':
			p.state = inSequence
		case p.state == afterEscape, p.state == inSequence && b >= '@' && b <= '~':
			p.state = inText
		case p.state == inText && (b >= ' ' && b != 0x7f || b == '\n' || b == '\t'):
			kept = append(kept, b)
		}
	}
	if _, err := p.to.Write(kept); err != nil {
		return 0, err
	}
	return len(text), nil
}

// completeRack completes the names of the machines of a rack, in the first so many arguments.
func completeRack(dir *rack.Folder, arguments int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= arguments || c.PreRunE(c, args) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		shape, err := dir.Shape()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := lists.Map(shape.Plan(), func(m rack.Machine) string { return m.Name })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// rackSwitches are the verbs that do something to machines by hand.
func (a *app) rackSwitches() []*cobra.Command {
	var after mebibytes = 32
	corrupt := a.rackSwitch(rack.Corrupt, "Corrupt what machines fetch by HTTP", `From now on, flip one byte in every --after bytes of a connection's HTTP answers and correct the TCP checksums, as a broken switch
would. Shorter answers arrive intact: with the default, a kernel does and a root filesystem does not.`, &after)
	corrupt.Flags().Var(&after, "after", "after how many bytes of an answer a byte is flipped")
	return []*cobra.Command{
		a.rackSwitch(rack.On, "Press the power button of machines that are off",
			`Switch machines on at their power button. Machines that are on stay on.`, nil),
		a.rackSwitch(rack.Off, "Hold the power button of machines until they are off",
			`Switch machines off hard, without shutting down their systems. Machines that are off stay off.`, nil),
		a.rackSwitch(rack.Kill, "Cut the power of machines",
			`Cut the power of machines, whatever they are doing. They can be switched on again.`, nil),
		a.rackSwitch(rack.Hang, "Freeze the CPUs of machines", `Stop the CPUs of machines: they have power but do nothing, as after a system crash. A reset, a power cycle or muster rack heal
ends it.`, nil),
		a.rackSwitch(rack.NoPower, "Break the power supply of machines",
			`From now on switching machines on has no effect: their BMCs answer as usual and magic packets arrive, but the machines stay off.`, nil),
		a.rackSwitch(rack.NoDHCP, "Drop the DHCP packets of machines",
			`From now on packets between machines and DHCP servers are dropped. All others arrive.`, nil),
		a.rackSwitch(rack.Unplug, "Unplug the network cables of machines", `From now on no packet reaches or leaves machines, as if their cables were cut; they keep running. Their BMCs still answer, but magic
packets do not arrive.`, nil),
		a.rackSwitch(rack.Slow, "Slow down the network of machines",
			`From now on the network of machines carries 256 kbit/s in each direction.`, nil),
		corrupt,
		a.rackSwitch(rack.BadDisk, "Make writes to the first disk of machines fail",
			`From their next start on, every write to the first disk of machines fails with an input/output error. Reads work.`,
			nil),
		a.rackSwitch(rack.Heal, "Remove all faults of machines", `Remove all faults of machines: hang, no-power, no-dhcp, unplug, slow, corrupt and bad-disk; the last one at
the next start. Machines that are on stay on, those off stay off.`, nil),
	}
}

// rackSwitch is one of them. after is for corrupt.
func (a *app) rackSwitch(what, short, long string, after *mebibytes) *cobra.Command {
	c := &cobra.Command{
		Use: what + " NAME…", Short: short, Long: long,
		Example: fmt.Sprintf("  muster rack %s rack-1\n  muster rack %s rack-1 rack-2", what, what),
		Args:    cobra.MinimumNArgs(1),
	}
	dir := rackFlag(c)
	c.ValidArgsFunction = completeRack(dir, 1<<10)
	return a.verb(c, func(ctx context.Context, args []string) error {
		offset := int64(0)
		if after != nil {
			offset = int64(*after) << 20
		}
		for _, name := range args {
			m, err := dir.Do(ctx, name, what, offset)
			if err != nil {
				return err
			}
			a.out.line("%s is %s%s", m.Name, m.State, textIf(len(m.Faults) > 0, "; faults: "+strings.Join(m.Faults, ", ")))
		}
		return nil
	})
}
