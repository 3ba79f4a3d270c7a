package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
	"muster/internal/rack"
)

func (a *app) rack() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rack",
		Short: "Run a virtual rack: QEMU machines to try bare metal on",
		Long: `A virtual rack is a separate network of QEMU machines with disks and BMCs that are off and boot from the network, like a delivered
rack, on one host. Try Muster on it, train on it, and break it: each fault of a real rack has a command.`,
		Example: `  muster rack up --machines 4 --firmware mixed --power mixed
  muster machines import rack.csv
  muster rack console rack-1 -f
  muster rack down`,
	}, append(a.rackSwitches(), a.rackUp(), a.rackDown(), a.rackList(), a.rackConsole())...)
}

// rackFlag gives a command --dir.
func rackFlag(c *cobra.Command) *rack.Folder {
	var folder rack.Folder
	dir := (*string)(&folder)
	c.Flags().StringVar(dir, "dir", "", "the rack's folder, `DIR` (default: the controller's data directory with -rack added)")
	_ = c.MarkFlagDirname("dir")
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		*dir, err = filepath.Abs(cmp.Or(*dir, dataDir()+"-rack"))
		return err
	}
	return &folder
}

// mebibytes is a size as a flag.
type mebibytes int

func (m *mebibytes) Set(text string) error {
	n, err := parseMemory(text)
	if err != nil || n == 0 {
		return errors.New("write a whole number with MiB, GiB or TiB, as in 4GiB")
	}
	*m = mebibytes(n)
	return nil
}

func (m *mebibytes) String() string {
	if *m%1024 == 0 {
		return strconv.Itoa(int(*m)/1024) + "GiB"
	}
	return strconv.Itoa(int(*m)) + "MiB"
}

// Type is for the flag's help.
func (m *mebibytes) Type() string { return "SIZE" }

// shapeFlags gives a command the options that describe a rack. Those that are not given are as the rack in the folder has
// them, if there is one.
func shapeFlags(c *cobra.Command) func(rack.Folder) (rack.Shape, error) {
	s := rack.Shape{MemoryMiB: 2 << 10, DiskMiB: 8 << 10}
	f := c.Flags()
	words := func(target *string, name, otherwise, about string, may []string) {
		f.StringVar(target, name, otherwise, about)
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(may, cobra.ShellCompDirectiveNoFileComp))
	}
	f.IntVar(&s.Machines, "machines", 0, "the number `N` of machines")
	f.StringVar(&s.Name, "name", "rack", "the `NAME` of the rack's network; machines are NAME-1, NAME-2 …")
	words(&s.Firmware, "firmware", rack.BIOS, "the `FIRMWARE`: bios, uefi, or mixed (alternating)", rack.Firmwares())
	words(&s.Power, "power", rack.WoL, "the power `CONTROL`: wol, ipmi, redfish, or mixed (alternating)", rack.Powers())
	f.IntVar(&s.CPUs, "cpus", 2, "`N` CPUs per machine")
	f.Var((*mebibytes)(&s.MemoryMiB), "memory", "memory per machine")
	f.IntVar(&s.Disks, "disks", 1, "`N` disks per machine")
	f.Var((*mebibytes)(&s.DiskMiB), "disk-size", "size of each disk; unwritten blocks take no space")
	words(&s.DiskKind, "disk-kind", rack.Virtio, "`KIND` of the disks: virtio or nvme", rack.DiskKinds())
	f.IntVar(&s.NICs, "nics", 1, "`N` NICs per machine")
	words(&s.Accel, "accel", rack.Auto, "the `ACCELERATOR`: kvm, tcg (slow, works everywhere), or auto", rack.Accels())
	return func(dir rack.Folder) (rack.Shape, error) {
		is, err := dir.Shape()
		if errors.Is(err, os.ErrNotExist) {
			if s.Machines == 0 {
				return s, usage("say how many: --machines N")
			}
			return s, misused(s.Validate())
		}
		if err != nil {
			return s, err
		}
		given := map[*pflag.Flag]string{}
		f.Visit(func(flag *pflag.Flag) { given[flag] = flag.Value.String() })
		s = is
		for flag, value := range given {
			if err := flag.Value.Set(value); err != nil {
				return s, err
			}
		}
		return s, misused(s.Validate())
	}
}

// misused makes an error one of usage.
func misused(err error) error {
	if err != nil {
		return usageError{err}
	}
	return nil
}

func (a *app) rackUp() *cobra.Command {
	c := &cobra.Command{
		Use:   "up --machines N",
		Short: "Set up a virtual rack",
		Long: `Set up a virtual rack of machines that are off, in the background, and write the list of them that ` + "`muster machines import`" + `
reads. The rack's network is added to a controller on this host. This needs root and QEMU; /dev/kvm makes it fast.

Run again, it changes no machine, adds the network again and rewrites the list. A rack whose process was killed, or whose host was
restarted, comes back with its machines off and their disks unchanged.`,
		Example: `  muster rack up --machines 4
  muster rack up --machines 6 --firmware mixed --power mixed --disks 2 --disk-kind nvme
  muster rack up --machines 2 --memory 1GiB --dir ./lab --name lab --csv lab.csv`,
		Args: cobra.NoArgs,
	}
	dir, shape := rackFlag(c), shapeFlags(c)
	csv := c.Flags().String("csv", "rack.csv", "the `FILE` to write the list of machines to; rack down removes it")
	return a.verb(c, func(ctx context.Context, _ []string) error {
		s, err := shape(*dir)
		if err != nil {
			return err
		}
		self, err := a.self()
		if err != nil {
			return fmt.Errorf("find this program, beside which is the one that runs the rack: %w", err)
		}
		program := filepath.Join(filepath.Dir(self), "muster-rack")
		state, err := dir.Up(ctx, s, []string{program, string(*dir)})
		if err != nil {
			return err
		}
		path, err := filepath.Abs(*csv)
		if err == nil {
			err = dir.WriteList(path)
		}
		if err != nil {
			return fmt.Errorf("the rack is up, but the list of its machines cannot be written: %w", err)
		}
		a.printRack(state)
		a.say("they run with %s, in %s\n`muster machines import %s` enrols them", state.Accel, *dir, *csv)
		return a.announceRack(ctx, *dir, s.Name)
	})
}

// announceRack tells the controller of a rack's network, if there is a controller.
func (a *app) announceRack(ctx context.Context, dir rack.Folder, name string) error {
	network := dir.Network(name)
	body := apiv1.Network{
		Name: name, Namespace: network.Namespace, Interface: network.Interface, Address: network.Address.String(),
		Mode:  string(network.Mode),
		First: network.First.String(), Last: network.Last.String(), Unknown: string(network.Unknown), Switch: network.Switch,
	}
	a.hurry() // a rack needs no controller
	_, _, err := apiv1.PutNetwork.Call(ctx, a, apiv1.PutNetworkInput{Network: name, Body: body})
	if _, refused := errors.AsType[*problemError](err); refused {
		return fmt.Errorf("the rack is up, but the controller refused its network: %w", err)
	}
	if err != nil {
		a.say("its network %s (%s, %s) was not added to a controller: %v\nonce a controller runs, repeat `muster rack up` "+
			"to add it", name, network.Interface, network.Namespace, err)
	}
	return nil
}

func (a *app) rackDown() *cobra.Command {
	c := &cobra.Command{
		Use:   "down",
		Short: "Remove the virtual rack completely",
		Long: `Stop all machines of the rack, its BMCs and its network, and delete its files, disks included. A controller on this host removes its
machines and its network. This is refused while clusters use its machines, unless --force is given. Without a rack it does
nothing.`,
		Example: `  muster rack down
  muster rack down --dir ./lab`,
		Args: cobra.NoArgs,
	}
	dir := rackFlag(c)
	force := c.Flags().Bool("force", false, "even while clusters use its machines")
	return a.verb(c, func(ctx context.Context, _ []string) error {
		shape, err := dir.Shape()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		a.hurry()
		controller, err := a.connect()
		if err == nil {
			err = a.retire(ctx, shape.Name, *force)
		}
		switch {
		case errors.Is(err, rack.ErrConflict) || ctx.Err() != nil:
			return err
		case err != nil && controller != nil:
			a.say("its machines may still be in the inventory: %v", err)
		}
		if err := dir.Down(ctx); err != nil || controller == nil {
			return err
		}
		_, _, err = apiv1.RemoveNetwork.Call(ctx, a, apiv1.NetworkRef{Network: shape.Name})
		if _, refused := errors.AsType[*problemError](err); refused && exitOf(err) != exitNotFound {
			a.say("the controller did not remove network %s: %v", shape.Name, err)
		}
		return nil
	})
}

// inUse is the conflict of taking away what somebody uses.
type inUse struct{ error }

func (inUse) Is(target error) bool { return target == rack.ErrConflict }

// retireWithin is how long machines have to leave the inventory; one whose disks are being erased stays longer.
const retireWithin = 20 * time.Second

// retire takes the machines of a network out of the inventory.
func (a *app) retire(ctx context.Context, network string, force bool) error {
	for deadline := time.Now().Add(retireWithin); ; {
		machines, err := apiv1.All(ctx, a, apiv1.ListMachines, apiv1.ListMachinesInput{})
		if err != nil {
			return err
		}
		machines = slices.DeleteFunc(machines, func(m apiv1.Machine) bool { return m.Network != network })
		for _, m := range machines {
			if m.Node != "" && !force {
				return inUse{fmt.Errorf("machine %s is used by %s; delete the cluster first, or give --force", m.Name, m.Node)}
			}
			if m.Desired == apiv1.ForRemoval {
				continue
			}
			if _, _, err := apiv1.RemoveMachine.Call(ctx, a, apiv1.MachineRef{Machine: m.Name}); err != nil &&
				exitOf(err) != exitNotFound {
				return err
			}
		}
		if len(machines) == 0 || time.Now().After(deadline) || force {
			return nil
		}
		if err := clock.Sleep(ctx, machineLook); err != nil {
			return err
		}
	}
}
