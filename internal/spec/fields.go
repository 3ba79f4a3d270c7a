package spec

import (
	"slices"
	"strings"
)

// Effect is what changing a field does to a running cluster.
type Effect string

const (
	Live         Effect = "live"         // at once; no job notices
	Rolling      Effect = "rolling"      // node by node, each drained first; the cluster stays up
	DrainsQueue  Effect = "drains-queue" // the queue's jobs end before its nodes are made anew or go
	NeverChanges Effect = "never"        // refused
)

// Field is one row of the table of fields.
type Field struct {
	Path     string   // pattern: "[]" stands for any entry of a list, "*" for any key
	Type     string   // a key of kinds, as documentation prints it
	Required bool     // within its mapping
	OrOne    bool     // a list that may be written as its only entry
	Values   []string // all words of a choice
	Now      []string // the values available now; empty for all
	NotYet   string   // what the field, or its values not in Now, will do; empty for an available field
	Min, Max int      // bounds of a number, or of a list's length; none if Max is 0
	Default  string   // in words; empty for none
	Effect   Effect   // of another value, a larger one, or one more entry; empty if its fields have their own
	Why      string
	Less     Effect // of a smaller value or one entry less, where that differs
	LessWhy  string
	Doc      string // one line
}

// Available says whether the field may be written today, if only with some of its values.
func (f Field) Available() bool { return f.NotYet == "" || len(f.Now) > 0 }

// Fields is the table of fields, in the order of a canonical file. A field inside one that is not available yet says so too.
func Fields() []Field {
	fields := slices.Clone(table)
	notYet := map[string]string{}
	for i, f := range fields {
		parent, _ := splitPattern(f.Path)
		if f.NotYet == "" {
			fields[i].NotYet = notYet[parent]
		}
		if !fields[i].Available() {
			notYet[f.Path] = fields[i].NotYet
		}
	}
	return fields
}

// The limits and defaults that code other than the table needs.
const (
	defaultIsolation   = "auto"
	defaultPlacement   = "any"
	defaultIdleAfter   = "5m"
	defaultLocality    = "preferred"
	homeMount          = "/home"
	defaultOnLimit     = "pause"
	maxNodes           = 1000 // of one queue
	defaultUnavailable = "1"
	defaultAppNode     = "head"
)

const (
	growsOrShrinks   = "new nodes join the running queue"
	shrinks          = "only the nodes that go are drained, idle ones first; the others go on"
	newNodes         = "a node cannot change its machine under a running job: the queue is drained and gets new nodes"
	packagesAndSetup = "packages and a set-up script on top of the image"
	nextPass         = "counted from the next second on; nothing restarts"
)

// table is the single source for parsing, schema, defaults' words, update effects and documentation. It is never written to.
// A parent's row comes before its fields; the first field of a list's entries identifies them.
var table = []Field{
	{Path: "name", Type: "cluster name", Required: true, Effect: NeverChanges,
		Why: "a cluster keeps its name for life; create another one and move there",
		Doc: "The cluster's name, unique in its project."},
	{Path: "project", Type: "name", Default: "your only project, or the site's", Effect: NeverChanges,
		Why: "its usage is accounted to the project from the first second",
		Doc: "The project that owns the cluster and pays for it."},
	{Path: "site", Type: "list", OrOne: true, Min: 1, Max: 10, Default: "this site", Effect: NeverChanges,
		Why: "its machines and its files are in one place",
		Doc: "Where it runs: one site, or a list in order of preference."},
	{Path: "site[]", Type: "name", Doc: "A site."},
	{Path: "isolation", Type: "choice", Values: []string{"auto", IsolationLocal, IsolationMetal, IsolationVM},
		Default: defaultIsolation, Effect: NeverChanges, Why: "nodes, network and storage are built for one kind of isolation",
		Doc: "What separates it from other clusters: whole machines, virtual machines, namespaces of one host, or the best there is."},
	{Path: "image", Type: "name", Default: "the site's default image", Effect: Rolling,
		Why: "each node is drained and boots the new image, a few at a time",
		Doc: "The environment that its nodes boot."},
	{Path: "boot", Type: "choice", Values: []string{BootMemory, BootDisk}, Default: BootMemory, Effect: Rolling,
		Why: "each node is drained and boots anew, a few at a time",
		Doc: "Where the root of nodes on whole machines is: in memory, fetched at every boot; or on the machine's disk, written once and kept until the node leaves or boots another image."},
	{Path: "update", Type: "mapping", Doc: "How a change that goes from node to node is carried out."},
	{Path: "update.max_unavailable", Type: "number or percentage", Default: defaultUnavailable, Effect: Live,
		Why: "read before the next node is touched",
		Doc: "How many compute nodes may be down at a time while nodes boot anew, one at least; nodes that are down for other reasons count."},
	{Path: "nodes", Type: "number", Min: 1, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "Short for one queue, main, of this many nodes. Instead of queues."},

	{Path: "head", Type: "mapping", Doc: "The node that users log in to."},
	{Path: "head.class", Type: "name", Default: "the site's class for heads", Effect: NeverChanges,
		Why: "the head holds the home directories and the running controller of Slurm; moving it would stop every job",
		Doc: "The class of the head's machine."},

	{Path: "queues", Type: "list", Min: 1, Max: 50, Doc: "The cluster's queues. Instead of nodes."},
	{Path: "queues[]", Type: "mapping", Effect: Live, Why: "the new queue joins the running cluster",
		Less: DrainsQueue, LessWhy: "its jobs end before its nodes go",
		Doc: "Nodes of one class: a Slurm partition."},
	{Path: "queues[].name", Type: "queue name", Required: true, Effect: DrainsQueue,
		Why: "under another name it is another queue: one is added, the old one is drained and removed",
		Doc: "The queue's name, unique in the cluster."},
	{Path: "queues[].class", Type: "name", Default: "the site's default class", Effect: DrainsQueue, Why: newNodes,
		Doc: "The class of its nodes' machines."},
	{Path: "queues[].nodes", Type: "number", Min: 0, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "Short for min and max of this number: a queue of fixed size."},
	{Path: "queues[].min", Type: "number", Min: 0, Max: maxNodes, Default: "0", Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "The nodes it always has."},
	{Path: "queues[].max", Type: "number", Min: 0, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "The nodes it may grow to when jobs wait."},
	{Path: "queues[].idle_after", Type: "duration", Default: defaultIdleAfter, Effect: Live, Why: "holds at once, for the nodes that are idle now too",
		Doc: "How long a node above min may be without a job before it goes."},
	{Path: "queues[].placement", Type: "choice", Values: []string{"any", "compact", "spread", "same-switch"},
		Default: defaultPlacement, Effect: Live, Why: "holds for the nodes that come next; those there stay where they are",
		Doc: "How its nodes are chosen among the free machines: whichever, near each other in the network, on as many leaf switches as can be, or on one leaf switch or not at all."},
	{Path: "queues[].or", Type: "list", Min: 1, Max: 10, Effect: Live,
		Why: "holds for the nodes that come next; those of a class that is named no longer are drained and replaced",
		Doc: "Other classes that will do when the first has no free machine, in order of preference."},
	{Path: "queues[].or[]", Type: "name", Doc: "A class."},
	{Path: "queues[].vm", Type: "mapping", Default: "the shape of the class, where its nodes are virtual machines", Doc: "The part of a machine that each node gets."},
	{Path: "queues[].vm.cpus", Type: "number", Required: true, Min: 1, Max: 4096, Effect: DrainsQueue, Why: newNodes,
		Doc: "CPUs of a node: hardware threads, of cores that it has for itself unless its class shares them."},
	{Path: "queues[].vm.memory", Type: "size", Required: true, Effect: DrainsQueue, Why: newNodes, Doc: "Memory of a node."},
	{Path: "queues[].vm.devices", Type: "mapping", Doc: "Devices of a node, which it has for itself."},
	{Path: "queues[].vm.devices.gpu", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "GPUs."},
	{Path: "queues[].vm.devices.ib", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "InfiniBand adapters, or their virtual functions."},
	{Path: "queues[].vm.devices.eth", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "Ethernet adapters, or their virtual functions, beside the cluster's network."},
	{Path: "queues[].vm.devices.nvme", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "NVMe disks."},
	{Path: "queues[].vm.locality", Type: "choice", Values: []string{"required", defaultLocality, "any"}, Default: defaultLocality, Effect: Live,
		Why: "holds for the nodes that come next; those there stay where they are",
		Doc: "Whether its devices must be beside its cores, on the same memory node."},
	{Path: "queues[].vm.gpu_direct", Type: "flag", Default: "false", Effect: DrainsQueue, Why: newNodes,
		Doc: "Whether each GPU must share a PCIe root port with an InfiniBand adapter of the node, so that they reach each other directly."},

	{Path: "storage", Type: "list", Min: 1, Max: 20, Default: "one entry, /home", Doc: "File systems that every node mounts."},
	{Path: "storage[]", Type: "mapping", Effect: NeverChanges, Why: "nodes mount their file systems when they boot",
		LessWhy: "files would be lost; create another cluster", Doc: "A file system."},
	{Path: "storage[].mount", Type: "mount point", Required: true, Now: []string{homeMount}, NotYet: "file systems beside " + homeMount,
		Effect: NeverChanges, Why: "running jobs hold its paths", Doc: "Where it is mounted."},
	{Path: "storage[].size", Type: "size", Default: "the site's limits.home", Effect: Live, Why: "it grows in use",
		Less: NeverChanges, LessWhy: "it grows and does not shrink; `muster snapshot` this cluster and create a smaller one from it",
		Doc: "How much it may hold, at least 300MiB; " + homeMount + " of a head that is a whole machine is in memory and has no size."},
	{Path: "storage[].keep", Type: "flag", Default: "false", NotYet: "files that outlive their cluster", Effect: Live,
		Why: "read when the cluster is deleted", Doc: "Whether it outlives the cluster."},
	{Path: "storage[].source", Type: "URL", NotYet: "file systems of the site", Effect: NeverChanges, Why: "running jobs hold its files",
		Doc: "A file system that exists already."},

	{Path: "software", Type: "mapping", Doc: "What runs on its nodes."},
	{Path: "software.scheduler", Type: "choice", Values: []string{SchedulerSlurm, SchedulerNone}, Default: SchedulerSlurm, Effect: NeverChanges,
		Why: "jobs, accounts and nodes belong to the scheduler; create another cluster",
		Doc: "What starts jobs: Slurm, or nothing of Muster's, on plain nodes with an MPI host file for a scheduler of the user's own."},
	{Path: "software.packages", Type: "list", Min: 1, Max: 200, NotYet: packagesAndSetup, Effect: Rolling, Why: "each node is drained and boots with them", Doc: "Packages."},
	{Path: "software.packages[]", Type: "package", Doc: "A package."},
	{Path: "software.setup", Type: "file path", NotYet: packagesAndSetup, Effect: Rolling, Why: "each node is drained and boots with it", Doc: "A script run on each node at boot."},

	{Path: "access", Type: "mapping", Doc: "Who may log in: the project's members, unless this names some of them. Keys belong to people, never to this file."},
	{Path: "access.users", Type: "list", Min: 1, Max: 500, Effect: Live, Why: "read at each login", Doc: "Those of the project's members who may log in, besides who made the cluster."},
	{Path: "access.users[]", Type: "name", Doc: "A person."},
	{Path: "access.apps", Type: "list", Min: 1, Max: 20, Doc: "Web applications that `muster open` opens through the site's HTTPS door."},
	{Path: "access.apps[]", Type: "mapping", Effect: Live, Why: "the door looks it up at each request", Doc: "A web application."},
	{Path: "access.apps[].name", Type: "app name", Required: true, Effect: Live, Why: "under another name it has another address",
		Doc: "Its name, unique in the cluster; the first word of its address."},
	{Path: "access.apps[].port", Type: "number", Required: true, Min: 1, Max: 65535, Effect: Live, Why: "holds for the next request",
		Doc: "The TCP port on which it speaks HTTP, on all addresses of its node."},
	{Path: "access.apps[].node", Type: "name", Default: defaultAppNode, Effect: Live, Why: "holds for the next request",
		Doc: "The node that it runs on."},
	{Path: "access.on_login", Type: "choice", Values: []string{OnLoginStay, OnLoginResume}, Default: OnLoginStay, Effect: Live, Why: "read at each login",
		Doc: "What a login through the gateway does while the cluster is paused: nothing, or it brings the cluster back."},

	{Path: "lease", Type: "mapping", Doc: "When the cluster starts and ends."},
	{Path: "lease.start", Type: "time", Default: Now, Effect: NeverChanges, Why: "machines are reserved from then on; delete it and create it anew",
		Doc: "When its nodes are there. Later than now, it reserves them."},
	{Path: "lease.for", Type: "duration", Default: "the site's; without one, no end", Effect: Live, Why: "moves its end; nothing restarts",
		Doc: "How long it runs from its start, pauses included."},
	{Path: "lease.on_end", Type: "choice", Values: []string{OnEndPause, OnEndDelete}, Default: OnEndPause, Effect: Live, Why: "read at its end",
		Doc: "What happens at its end: its machines go and its files stay, or all goes."},

	{Path: "budget", Type: "mapping", Doc: "What the cluster may cost."},
	{Path: "budget.limit", Type: "money", Required: true, Effect: Live, Why: nextPass, Doc: "The most it may cost, from its creation on."},
	{Path: "budget.on_limit", Type: "choice", Values: []string{defaultOnLimit, OnLimitWarn}, Default: defaultOnLimit, Effect: Live, Why: nextPass,
		Doc: "What happens at the limit: it is paused, or only told."},

	{Path: "pause", Type: "mapping", NotYet: "what nodes wrote outside /home, kept over a pause (/home, the queue of jobs, names and keys are kept in any case)",
		Doc: "What a pause keeps besides /home and the queue of jobs."},
	{Path: "pause.keep", Type: "choice", Required: true, Values: []string{"overlay"}, Effect: Live, Why: "read when it is paused",
		Doc: "overlay: what each node wrote outside /home."},
	{Path: "burst", Type: "mapping", NotYet: "nodes of another site when this one is full", Doc: "Nodes of another site when this one is full."},
	{Path: "burst.to", Type: "name", Required: true, Effect: DrainsQueue, Why: "nodes at the old site end their jobs and go", Doc: "The other site."},
	{Path: "burst.max", Type: "number", Required: true, Min: 1, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "The most nodes to take there."},
}

// effect is what a change of this field does and why; less for a smaller value or one entry less.
func (f Field) effect(less bool) (Effect, string) {
	effect, why := f.Effect, f.Why
	if less && f.Less != "" {
		effect = f.Less
	}
	if less && f.LessWhy != "" {
		why = f.LessWhy
	}
	return effect, why
}

// available says whether a value may be written today.
func (f Field) available(value string) bool { return len(f.Now) == 0 || slices.Contains(f.Now, value) }

// either prints words as a choice: "auto, local or vm".
func either(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}
