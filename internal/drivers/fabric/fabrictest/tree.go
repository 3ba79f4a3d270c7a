// Package fabrictest holds what tests of fabrics share: fat trees in the words of ibnetdiscover, and the contract test that
// every driver passes, real or in memory.
//
// What enters: a driver and the fabric that it serves. What leaves: failures of the test.
package fabrictest

import (
	"fmt"
	"strings"

	"muster/internal/fabric"
)

// The numbers that a tree's parts are made of. Adapters have one port, whose GUID is one above their own.
const (
	hostBase   = 0x0002c90300100000
	hostStep   = 0x10
	leafBase   = 0x0002c90200100000
	spineBase  = 0x0002c90200200000
	leastPorts = 36 // of a switch; more where the tree needs more
)

// HostNode is the GUID of the adapter of host i, counted from 0.
func HostNode(i int) fabric.GUID { return fabric.GUID(hostBase + i*hostStep) }

// HostPort is the GUID of the port of host i: what partitions name.
func HostPort(i int) fabric.GUID { return HostNode(i) + 1 }

// HostName is what host i calls itself; its adapter's description is this and " mlx5_0".
func HostName(i int) string { return fmt.Sprintf("node%04d", i+1) }

// Leaf is the GUID of leaf switch i, and Spine that of spine i.
func Leaf(i int) fabric.GUID { return fabric.GUID(leafBase + i*hostStep) }

// Spine is the GUID of spine switch i.
func Spine(i int) fabric.GUID { return fabric.GUID(spineBase + i*hostStep) }

// FatTree is a fabric of two levels as ibnetdiscover prints it and ibsim reads it: host i hangs on port 1 + i mod perLeaf of
// leaf i/perLeaf, and each leaf has one link to each spine, from the ports above its hosts.
func FatTree(hosts, perLeaf, spines int) string {
	t := tree{hosts: hosts, perLeaf: perLeaf, spines: spines, leaves: (hosts + perLeaf - 1) / perLeaf}
	fmt.Fprintf(&t.text, "#\n# Topology file: a tree of %d hosts on %d leaves below %d spines\n#\n\n", hosts, t.leaves, spines)
	for i := range spines {
		t.spine(i)
	}
	for i := range t.leaves {
		t.leaf(i)
	}
	for i := range hosts {
		t.host(i)
	}
	return t.text.String()
}

type tree struct {
	hosts, perLeaf, leaves, spines int
	text                           strings.Builder
}

// Local identifiers: spines first, then leaves, then hosts.
func (t *tree) spineLID(i int) int { return 1 + i }
func (t *tree) leafLID(i int) int  { return 1 + t.spines + i }
func (t *tree) hostLID(i int) int  { return 1 + t.spines + t.leaves + i }

func (t *tree) printf(format string, values ...any) { fmt.Fprintf(&t.text, format, values...) }

func (t *tree) switchHead(g fabric.GUID, ports int, name string, lid int) {
	t.printf("vendid=0x2c9\ndevid=0xc738\nsysimgguid=0x%x\nswitchguid=0x%x(%x)\n", uint64(g), uint64(g), uint64(g))
	t.printf("Switch\t%d \"S-%016x\"\t\t# \"%s\" enhanced port 0 lid %d lmc 0\n", max(leastPorts, ports), uint64(g), name, lid)
}

func (t *tree) spine(i int) {
	t.switchHead(Spine(i), t.leaves, fmt.Sprintf("spine%d", i), t.spineLID(i))
	for leaf := range t.leaves {
		t.printf("[%d]\t\"S-%016x\"[%d]\t\t# \"leaf%d\" lid %d 4xFDR\n", leaf+1, uint64(Leaf(leaf)), t.perLeaf+i+1, leaf,
			t.leafLID(leaf))
	}
	t.printf("\n")
}

func (t *tree) leaf(i int) {
	t.switchHead(Leaf(i), t.perLeaf+t.spines, fmt.Sprintf("leaf%d", i), t.leafLID(i))
	for host := i * t.perLeaf; host < min(t.hosts, (i+1)*t.perLeaf); host++ {
		t.printf("[%d]\t\"H-%016x\"[1](%x) \t\t# \"%s mlx5_0\" lid %d 4xFDR\n", host%t.perLeaf+1, uint64(HostNode(host)),
			uint64(HostPort(host)), HostName(host), t.hostLID(host))
	}
	for spine := range t.spines {
		t.printf("[%d]\t\"S-%016x\"[%d]\t\t# \"spine%d\" lid %d 4xFDR\n", t.perLeaf+spine+1, uint64(Spine(spine)), i+1, spine,
			t.spineLID(spine))
	}
	t.printf("\n")
}

func (t *tree) host(i int) {
	leaf := i / t.perLeaf
	t.printf("vendid=0x2c9\ndevid=0x1003\nsysimgguid=0x%x\ncaguid=0x%x\n", uint64(HostNode(i))+3, uint64(HostNode(i)))
	t.printf("Ca\t1 \"H-%016x\"\t\t# \"%s mlx5_0\"\n", uint64(HostNode(i)), HostName(i))
	t.printf("[1](%x) \t\"S-%016x\"[%d]\t\t# lid %d lmc 0 \"leaf%d\" lid %d 4xFDR\n\n", uint64(HostPort(i)), uint64(Leaf(leaf)),
		i%t.perLeaf+1, t.hostLID(i), leaf, t.leafLID(leaf))
}
