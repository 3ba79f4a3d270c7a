package kinds_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

// TestARoundTellsOnWhatItRan: what nodes say, and what they cannot know or would like to be believed. What values depend on
// beside the nodes is said with each run.
func TestARoundTellsOnWhatItRan(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 4)
		kindstest.AddCluster(t, s, "c2", "other")
		runBench(t, s, planOf(t, 1, "run: echo q 1\n"+readsQ))
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := addNodes(ctx, tx, true, true); err != nil {
				return err
			}
			if err := kindstest.AddNode(ctx, tx, "o1", "c2", "n1", 1, "m3"); err != nil {
				return err
			}
			for _, change := range []string{
				`UPDATE machine SET network = 'rack', facts = '{"cpu_model": "Xeon", "system": {"firmware": "2.1"}, "dimms": [
					{"slot": "A1", "size_mib": 16384, "speed": "3200 MT/s"}, {"slot": "A2", "size_mib": 16384, "speed": "3200 MT/s"},
					{"slot": "B1", "size_mib": 8192}]}' WHERE id = 'm4'`,
				`UPDATE node SET host_id = 'm4', leaf_number = 3, image = 'sha256:11' WHERE id = 'n2'`,
			} {
				if _, err := tx.Exec(ctx, change); err != nil {
					return err
				}
			}
			return nil
		})
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
		said := "n1 virtualization kvm\nn1 platform bare metal\nn2 virtualization emulated in software\nn3 kernel 6\n"
		look := "\n@" + r.Plan.Mark + " look " + base64.StdEncoding.EncodeToString([]byte(said)) + "\n"
		endTask(t, s, r.Task, protocol.TaskOK, append(runJob(t, s, r.Task), look...), "n1", "n2")
		r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			looks, err := bench.LooksOf(ctx, tx, "b1", 0)
			if err != nil {
				return err
			}
			for node, want := range map[string]map[string]string{
				"n1": {"virtualization": "kvm", "platform": "container", "class": "local", "other-nodes-on-host": "1",
					"leaf": ""},
				"n2": {"platform": "virtual machine", "other-nodes-on-host": "0", "leaf": "3", "image": "sha256:11",
					"host-cpu": "Xeon", "host-firmware": "2.1", "host-memory": "2 of 16384 MiB at 3200 MT/s, 1 of 8192 MiB"},
				"n3": {"kernel": "6", "platform": ""},
			} {
				for key, value := range want {
					if got := looks.Before[node][key]; got != value {
						t.Errorf("%s of %s is %q, not %q", key, node, got, value)
					}
				}
			}
			cautions, err := bench.Cautions(ctx, tx, r)
			if want := []string{"n2 is emulated in software, without the CPU's help: values are those of the emulator",
				"n1 is beside other nodes on the same host: they use the same CPUs, memory or links"}; !slices.Equal(cautions, want) {
				t.Error(fmt.Sprintf("%q", cautions), "not", fmt.Sprintf("%q", want))
			}
			return err
		})
	})
}
