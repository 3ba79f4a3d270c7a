package spec

import (
	"slices"
	"strings"
)

// What changing a field does to a running cluster.
const (
	Live         Effect = "live"         // at once; no job notices
	Rolling      Effect = "rolling"      // node by node, each drained first; the cluster stays up
	DrainsQueue  Effect = "drains-queue" // the queue's jobs end before its nodes are replaced or removed
	NeverChanges Effect = "never"        // refused
)

// Field is one row of the table of fields.
type Field struct {
	Path     string   // pattern: "[]" stands for any entry of a list, "*" for any key
	Type     string   // a key of kinds, as documentation prints it
	Keys     string   // of "*": the kind of its keys; a name, if it is empty
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
	shrinks          = "only the nodes that are removed are drained, idle ones first; the others go on"
	newNodes         = "a node cannot change its machine under a running job: the queue is drained and gets new nodes"
	packagesAndSetup = "packages and a set-up script on top of the image"
	nextPass         = "takes effect within a second; nothing restarts"
)

// table is the single source for parsing, schema, defaults' words, update effects and documentation. It is never written to.
// A parent's row comes before its fields; the first field of a list's entries identifies them.
var table = []Field{
	{Path: "name", Type: "cluster name", Required: true, Effect: NeverChanges,
		Why: "a cluster keeps its name for life; create another cluster and move there",
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
		Doc: "What separates it from other clusters: whole machines (metal), virtual machines (vm), namespaces of one host " +
			"(local), or what its classes have (auto)."},
	{Path: "image", Type: "name", Default: "the site's default image", Effect: Rolling,
		Why: "each node is drained and boots the new image, a few at a time",
		Doc: "The environment that its nodes boot."},
	{Path: "boot", Type: "choice", Values: []string{BootMemory, BootDisk}, Default: BootMemory, Effect: Rolling,
		Why: "each node is drained and rebooted, a few at a time",
		Doc: "Where whole machines keep their root file system: in memory, fetched at every boot; or on the machine's disk, " +
			"written once and kept until the node leaves or gets another image."},
	{Path: "update", Type: "mapping", Doc: "How rolling changes are carried out."},
	{Path: "update.max_unavailable", Type: "number or percentage", Default: defaultUnavailable, Effect: Live,
		Why: "read before the next node is rebooted",
		Doc: "How many compute nodes may be down at once during a rolling change, at least 1; nodes that are down for other " +
			"reasons count."},
	{Path: "nodes", Type: "number", Min: 1, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "Short for one queue called main with this many nodes; instead of queues."},

	{Path: "head", Type: "mapping", Doc: "The node that users log in to."},
	{Path: "head.class", Type: "name", Default: "the site's class for heads", Effect: NeverChanges,
		Why: "the head holds the home directories and runs Slurm's controller; moving it would stop every job",
		Doc: "The class of the head's machine."},

	{Path: "accounting", Type: "choice", Values: []string{AccountingFull, "light", "none"},
		Default: "full if the head has 1 GiB of memory or more and its image can, else light", Effect: NeverChanges,
		Why: "a database starts with its cluster; create another cluster",
		Doc: "What is kept of jobs that have ended: all that sacct, sreport, fair share and limits need, in a database on the " +
			"head, and what they used, by the site (full); what they were and how they ended, by the site alone (light); or " +
			"nothing (none)."},

	{Path: "qos", Type: "list", Min: 1, Max: 20, Doc: "Slurm QOS, which a job names with `--qos`; one called normal is that of " +
		"jobs that name none."},
	{Path: "qos[]", Type: "mapping", Effect: Live, Why: "what waits and what is submitted is judged by it; running jobs go on",
		Doc: "A QOS."},
	{Path: "qos[].name", Type: "QOS name", Required: true, Effect: Live, Why: "jobs name it from now on",
		Doc: "Its name, unique in the cluster."},
	{Path: "qos[].priority", Type: "number", Max: 1000, Effect: Live, Why: nextPass,
		Doc: "How much sooner its jobs start, next to the highest of the cluster's QOS."},
	{Path: "qos[].max_time", Type: "duration", Effect: Live, Why: nextPass, Doc: "The longest time that a job may ask for."},
	{Path: "qos[].max_nodes", Type: "number", Min: 1, Max: 4096, Effect: Live, Why: nextPass,
		Doc: "The most nodes that a job may ask for."},
	{Path: "qos[].per_user", Type: "mapping", Doc: "What the jobs of one user may have at the same time."},
	{Path: "qos[].per_user.cpus", Type: "number", Min: 1, Max: 1_000_000, Effect: Live, Why: nextPass,
		Doc: "CPUs of running jobs; more wait."},
	{Path: "qos[].per_user.nodes", Type: "number", Min: 1, Max: 4096, Effect: Live, Why: nextPass,
		Doc: "Nodes of running jobs; more wait."},
	{Path: "qos[].per_user.jobs", Type: "number", Min: 1, Max: 1_000_000, Effect: Live, Why: nextPass,
		Doc: "Running jobs; more wait."},
	{Path: "qos[].per_user.submitted", Type: "number", Min: 1, Max: 1_000_000, Effect: Live, Why: nextPass,
		Doc: "Jobs that run or wait; more are refused."},

	{Path: "shares", Type: "list", Min: 1, Max: 500, Doc: "Fair share: who has used less than his part of the cluster goes first. " +
		"Everybody who is not named has 1."},
	{Path: "shares[]", Type: "mapping", Effect: Live, Why: nextPass, Doc: "The share of a user."},
	{Path: "shares[].user", Type: "name", Required: true, Effect: Live, Why: nextPass, Doc: "A member of the project."},
	{Path: "shares[].share", Type: "number", Required: true, Max: 1000, Effect: Live, Why: nextPass,
		Doc: "How many times the part of one with 1; 0: only what nobody else asks for."},

	{Path: "queues", Type: "list", Min: 1, Max: 50, Doc: "The cluster's queues; instead of nodes."},
	{Path: "queues[]", Type: "mapping", Effect: Live, Why: "the new queue joins the running cluster",
		Less: DrainsQueue, LessWhy: "its jobs end before its nodes go",
		Doc: "Nodes of one class: a Slurm partition."},
	{Path: "queues[].name", Type: "queue name", Required: true, Effect: DrainsQueue,
		Why: "a new name means a new queue: it is added, and the old one is drained and removed",
		Doc: "The queue's name, unique in the cluster."},
	{Path: "queues[].class", Type: "name", Default: "the site's default class", Effect: DrainsQueue, Why: newNodes,
		Doc: "The class of its nodes' machines."},
	{Path: "queues[].nodes", Type: "number", Min: 0, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "A queue of fixed size: short for min and max of this number."},
	{Path: "queues[].min", Type: "number", Min: 0, Max: maxNodes, Default: "0", Effect: Live, Why: growsOrShrinks,
		LessWhy: shrinks,
		Doc:     "The number of nodes that it always has."},
	{Path: "queues[].max", Type: "number", Min: 0, Max: maxNodes, Effect: Live, Why: growsOrShrinks, LessWhy: shrinks,
		Doc: "The number of nodes that it may grow to when jobs wait."},
	{Path: "queues[].idle_after", Type: "duration", Default: defaultIdleAfter, Effect: Live,
		Why: "takes effect at once, also for nodes that are idle now",
		Doc: "How long a node above min may be idle before it is removed."},
	{Path: "queues[].placement", Type: "choice", Values: []string{"any", "compact", "spread", "same-switch"},
		Default: defaultPlacement, Effect: Live, Why: "applies to new nodes; existing ones stay where they are",
		Doc: "How machines are chosen: any free ones; near each other in the network (compact); on as many leaf switches as " +
			"possible (spread); or all on one leaf switch, else refused (same-switch)."},
	{Path: "queues[].or", Type: "list", Min: 1, Max: 10, Effect: Live,
		Why: "applies to new nodes; those of a class that is no longer listed are drained and replaced",
		Doc: "Other classes to use when the first has no free machine, in order of preference."},
	{Path: "queues[].or[]", Type: "name", Doc: "A class."},
	{Path: "queues[].vm", Type: "mapping", Default: "the class's, if its nodes are virtual machines",
		Doc: "The virtual machine that each node is."},
	{Path: "queues[].vm.cpus", Type: "number", Required: true, Min: 1, Max: 4096, Effect: DrainsQueue, Why: newNodes,
		Doc: "CPUs of a node, in hardware threads. Their cores are the node's own, unless its class shares them."},
	{Path: "queues[].vm.memory", Type: "size", Required: true, Effect: DrainsQueue, Why: newNodes, Doc: "Memory of a node."},
	{Path: "queues[].vm.devices", Type: "mapping", Doc: "Devices that each node has for itself."},
	{Path: "queues[].vm.devices.gpu", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "GPUs."},
	{Path: "queues[].vm.devices.ib", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes,
		Doc: "InfiniBand adapters, or their virtual functions."},
	{Path: "queues[].vm.devices.eth", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes,
		Doc: "Ethernet adapters, or their virtual functions, in addition to the cluster's network."},
	{Path: "queues[].vm.devices.nvme", Type: "number", Min: 1, Max: 64, Effect: DrainsQueue, Why: newNodes, Doc: "NVMe disks."},
	{Path: "queues[].vm.locality", Type: "choice", Values: []string{"required", defaultLocality, "any"}, Default: defaultLocality,
		Effect: Live,
		Why:    "applies to new nodes; existing ones stay where they are",
		Doc:    "Whether its devices must be on the same NUMA node as its cores."},
	{Path: "queues[].vm.gpu_direct", Type: "flag", Default: "false", Effect: DrainsQueue, Why: newNodes,
		Doc: "Whether each GPU must share a PCIe root port with an InfiniBand adapter of the node, for direct transfers " +
			"between " +
			"them."},

	{Path: "storage", Type: "list", Min: 1, Max: 20, Default: "one entry, /home", Doc: "File systems that every node mounts."},
	{Path: "storage[]", Type: "mapping", Effect: NeverChanges, Why: "nodes mount their file systems when they boot",
		LessWhy: "files would be lost; create another cluster", Doc: "A file system."},
	{Path: "storage[].mount", Type: "mount point", Required: true, Now: []string{homeMount},
		NotYet: "file systems other than " + homeMount,
		Effect: NeverChanges, Why: "running jobs use its paths", Doc: "Where it is mounted."},
	{Path: "storage[].size", Type: "size", Default: "the site's limits.home", Effect: Live, Why: "it grows while in use",
		Less:    NeverChanges,
		LessWhy: "a file system cannot shrink; save the cluster with `muster snapshot` and create a smaller one from that",
		Doc: "Its capacity, at least 300MiB. On a head that is a whole machine " + homeMount +
			" is in memory and has no size."},
	{Path: "storage[].keep", Type: "flag", Default: "false", NotYet: "files that outlive their cluster", Effect: Live,
		Why: "read when the cluster is deleted", Doc: "Whether it is kept when the cluster is deleted."},
	{Path: "storage[].source", Type: "URL",
		NotYet: "file systems of the site", Effect: NeverChanges, Why: "running jobs use its files",
		Doc: "An existing file system to mount."},

	{Path: "software", Type: "mapping", Doc: "Software on its nodes."},
	{Path: "software.scheduler", Type: "choice", Values: []string{SchedulerSlurm, SchedulerNone}, Default: SchedulerSlurm,
		Effect: NeverChanges,
		Why:    "jobs, accounts and nodes are the scheduler's; create another cluster",
		Doc: "What starts jobs: slurm; or none, for plain nodes with an MPI host file on which you may run a scheduler of " +
			"your own."},
	{Path: "software.packages", Type: "list", Min: 1, Max: 200,
		NotYet: packagesAndSetup, Effect: Rolling, Why: "each node is drained and boots with them",
		Doc: "Packages."},
	{Path: "software.packages[]", Type: "package", Doc: "A package."},
	{Path: "software.setup", Type: "file path",
		NotYet: packagesAndSetup, Effect: Rolling, Why: "each node is drained and boots with it",
		Doc: "A script run on each node at boot."},

	{Path: "access", Type: "mapping",
		Doc: "Who may log in: all members of the project, unless users are listed. SSH keys belong to people and are not in " +
			"this file."},
	{Path: "access.users", Type: "list", Min: 1, Max: 500, Effect: Live, Why: "read at each login",
		Doc: "The members of the project who may log in, in addition to the cluster's creator."},
	{Path: "access.users[]", Type: "name", Doc: "A person."},
	{Path: "access.apps", Type: "list", Min: 1, Max: 20, Doc: "Web apps that `muster open` opens through the site's web door."},
	{Path: "access.apps[]", Type: "mapping", Effect: Live, Why: "read at each request", Doc: "A web app."},
	{Path: "access.apps[].name", Type: "app name", Required: true, Effect: Live, Why: "a new name means a new address",
		Doc: "Its name, unique in the cluster; the first word of its address."},
	{Path: "access.apps[].port", Type: "number", Required: true, Min: 1, Max: 65535, Effect: Live,
		Why: "takes effect at the next request",
		Doc: "The TCP port on which it serves HTTP, on all addresses of its node."},
	{Path: "access.apps[].node", Type: "name", Default: defaultAppNode, Effect: Live, Why: "takes effect at the next request",
		Doc: "The node that it runs on."},
	{Path: "access.on_login", Type: "choice", Values: []string{OnLoginStay, OnLoginResume}, Default: OnLoginStay, Effect: Live,
		Why: "read at each login",
		Doc: "What a login through the gateway does to a paused cluster: nothing (stay), or resume it."},

	{Path: "lease", Type: "mapping", Doc: "When the cluster starts and ends."},
	{Path: "lease.start", Type: "time", Default: Now, Effect: NeverChanges,
		Why: "machines are reserved from that time; delete the cluster and create it again",
		Doc: "When the cluster starts. For a later time, its machines are reserved."},
	{Path: "lease.for", Type: "duration", Default: "the site's; without one, no end", Effect: Live,
		Why: "moves its end; nothing restarts",
		Doc: "How long it runs from its start, pauses included."},
	{Path: "lease.on_end", Type: "choice", Values: []string{OnEndPause, OnEndDelete}, Default: OnEndPause, Effect: Live,
		Why: "read at its end",
		Doc: "What happens at its end: pause returns the machines and keeps the files; delete removes everything."},

	{Path: "budget", Type: "mapping", Doc: "What the cluster may cost."},
	{Path: "budget.limit", Type: "money", Required: true, Effect: Live, Why: nextPass,
		Doc: "The most that the cluster may cost, counted from its creation."},
	{Path: "budget.on_limit", Type: "choice", Values: []string{defaultOnLimit, OnLimitWarn}, Default: defaultOnLimit,
		Effect: Live,
		Why:    nextPass,
		Doc:    "What happens at the limit: the cluster is paused, or an event warns of it."},

	{Path: "pause", Type: "mapping",
		NotYet: "keeping what nodes wrote outside /home during a pause (/home, the job queue, names and keys are always kept)",
		Doc:    "What a pause keeps in addition to /home and the job queue."},
	{Path: "pause.keep", Type: "choice", Required: true, Values: []string{"overlay"}, Effect: Live, Why: "read when it is paused",
		Doc: "overlay: what each node wrote outside /home."},
	{Path: "burst", Type: "mapping", NotYet: "nodes at another site when this one is full",
		Doc: "Nodes at another site when this one is full."},
	{Path: "burst.to", Type: "name", Required: true, Effect: DrainsQueue,
		Why: "nodes at the old site finish their jobs and are removed",
		Doc: "The other site."},
	{Path: "burst.max", Type: "number", Required: true, Min: 1, Max: maxNodes, Effect: Live, Why: growsOrShrinks,
		LessWhy: shrinks,
		Doc:     "The largest number of nodes there."},
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
