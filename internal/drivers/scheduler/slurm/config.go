// Package slurm is the driver of Slurm: it writes Slurm's configuration, starts its daemons, reads its state and changes its
// nodes.
//
// What enters: a cluster's configuration; the text that Slurm's own programs print. What leaves: slurm.conf, slurmd's
// description of a node, protocol.NodeState. Rendering and parsing are pure; Control alone runs programs, by the function that
// it is given. Written for and tried with Slurm 22.05 and 24.11.
package slurm

import (
	"fmt"
	"path"
	"strings"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Port is where slurmctld listens and NodePort where slurmd does.
const (
	Port     = 6817
	NodePort = 6818
)

// User is the account that slurmctld becomes. Its state directory must belong to it.
const User = "slurm"

// written begins each file of Slurm's that is made here.
const written = "# Written by muster; changes are overwritten.\n"

// Cluster is what slurm.conf depends on. Nodes are not in it: they come and go as dynamic nodes, so that the file
// changes only with the queues.
type Cluster struct {
	Name        string
	Head        string // host name of the head
	HeadAddress string // its IPv4 address
	StateDir    string // where slurmctld keeps jobs and nodes over a restart
	SpoolDir    string // where slurmd keeps the scripts of running jobs, on each node
	Local       string // the file that RenderLocal is for, on each node and on the head
	Queues      []protocol.Queue
	Memory      map[string]int // MemoryShares; a queue that is not in it has leastShare
	Accounts    bool           // slurmdbd on the head keeps accounts of jobs
	Asks        bool           // a script about each new job: see submitFile
	Hooks       bool           // the project has some: see hookLines
	Mails       bool           // the site has a relay: see mailProgram
	Private     bool           // jobs have folders of their own in place of what all share: see jobFolders
}

// settings are the lines that are the same in every cluster.
const settings = `
# Nodes fetch this file from slurmctld: it exists on the head only.
SlurmctldParameters=enable_configless
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
# A job that lost its node waits this long before it starts again, in seconds, so that what allowed its first run is void.
AuthInfo=cred_expire=30
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
# Nodes that joined before a queue was added have an older copy of this file, which does not matter to them.
DebugFlags=NO_CONF_HASH
# All nodes are dynamic. The limit sizes a table and cannot be changed while slurmctld runs.
MaxNodeCount=4096
# slurmctld speaks to each node itself: a forwarding tree would pass through nodes that may be about to leave.
TreeWidth=65533
# A node that comes back, under its own name, works again by itself.
ReturnToService=2
# Who may reboot a node says so to Slurm, which waits for its jobs; then Muster does it, however the node is to be switched.
RebootProgram=/bin/true
# It has this long, in seconds. Slurm takes the node out of service if Muster was away for longer.
ResumeTimeout=3600
# Muster's heartbeat finds a dead node in seconds and removes it; this is only for when Muster itself is away. A busy
# node may be slow to answer, and a false alarm costs its jobs.
SlurmdTimeout=60
SlurmctldTimeout=60
# From SIGTERM to SIGKILL of a job that is cancelled or out of time, in seconds: Slurm's own default, by which programs save.
KillWait=30
# Numbers of array jobs are below it. Every task that runs or has just ended is a job.
MaxArraySize=100001
MaxJobCount=100000
# A finished job stays visible this long, in seconds.
MinJobAge=300

# Needs no control groups of its own, which nodes in namespaces cannot make.
ProctrackType=proctrack/linuxproc
# Debian's Open MPI has PMIx and nothing else.
MpiDefault=pmix
# What a job's programs use is looked at this often, in seconds, and when they end.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5
# A rank that dies takes its step with it: the others would wait for it for ever.
KillOnBadExit=1
# What a job may pin in memory, as InfiniBand needs it, and how many files it may open are limits of its node, not of the head
# that it was submitted on.
PropagateResourceLimitsExcept=MEMLOCK,NOFILE
# Cores and memory are given out. Who asks for no memory gets the share of the CPUs, in MiB for each.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=%d
# What a node may have besides, whether any has one now or not: slurmctld reads this when it starts.
GresTypes=gpu
# Jobs of a lost node start again elsewhere.
JobRequeue=1
# A batch job starts at once instead of up to 3 s later.
SchedulerParameters=batch_sched_delay=0
`

// accountingSettings are those where jobs are accounted for, and inOrder where they are not.
const accountingSettings = `# Jobs are recorded, with what they used, by the head's slurmdbd. Who it does not know submits none.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=%s
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos,safe
# Who has used less than others lately is first; among equals, who came first.
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightQOS=2000
`

const inOrder = `# Who came first is first, but for what users say of their own jobs.
PriorityType=priority/basic
`

// Render returns slurm.conf. The same cluster gives the same text.
func Render(c Cluster) string {
	var b strings.Builder
	b.WriteString(written)
	fmt.Fprintf(&b, "ClusterName=%s\n", c.Name)
	fmt.Fprintf(&b, "SlurmctldHost=%s(%s)\n", c.Head, c.HeadAddress)
	fmt.Fprintf(&b, "StateSaveLocation=%s\n", c.StateDir)
	fmt.Fprintf(&b, "SlurmdSpoolDir=%s\n", c.SpoolDir)
	fmt.Fprintf(&b, settings, leastShare)
	if c.Accounts {
		fmt.Fprintf(&b, accountingSettings, c.HeadAddress)
	} else {
		b.WriteString(inOrder)
	}
	mails := "/bin/true" // as Slurm takes it for an error that there is none
	if c.Mails {
		mails = mailProgram
	}
	fmt.Fprintf(&b, "MailProg=%s\n", mails)
	if c.Asks {
		b.WriteString("# Who has left the cluster submits no new jobs.\nJobSubmitPlugins=lua\n")
	}
	if c.Hooks {
		b.WriteString(hookLines)
	}
	if c.Private {
		b.WriteString("# Each job has folders of its own: see job_container.conf.\nJobContainerType=job_container/tmpfs\n")
	}
	switch { // a prolog has ended on all nodes before the job begins; with Contain Slurm makes the job's folders there
	case c.Private:
		b.WriteString("PrologFlags=Alloc,Contain\n")
	case c.Hooks:
		b.WriteString("PrologFlags=Alloc\n")
	}
	b.WriteString("\n# A queue is a partition of all nodes that name it as their feature, now or later.\n")
	for _, q := range c.Queues {
		fmt.Fprintf(&b, "NodeSet=%s Feature=%s\n", nodeSet(q.Name), q.Name)
		fmt.Fprintf(&b, "PartitionName=%s Nodes=%s Default=%s MaxTime=INFINITE State=%s%s\n",
			q.Name, nodeSet(q.Name), yesNo(q.Default), upOrDrain(q.Closed), shareOf(c.Memory[q.Name]))
	}
	fmt.Fprintf(&b, "\n# What is not the same everywhere: each node has a file of its own.\nInclude %s\n", c.Local)
	return b.String()
}

// cgroupConf is cgroup.conf, which nodes fetch: what it says is each node's own.
const cgroupConf = written + "Include " + groupsFile + "\n"

// mpiConf is mpi.conf(5), which nodes fetch. Slurm's other way to have ranks wait for each other, a tree, lets one go before all
// have come: it sends to a rank that is still in MPI_Init and does not know MPI_COMM_WORLD, and that rank crashes.
// See docs/decisions/slurm.md.
const mpiConf = written + "PMIxCollFence=ring\n"

// mpiFolders is the rest of mpi.conf where jobs have folders of their own: what slurmstepd shares with the ranks of a node is
// made before they have.
const mpiFolders = "PMIxCliTmpDirBase=/dev/shm\n"

// stackConf is plugstack.conf(5), which nodes fetch: each takes the plugins that its own image brings, if any.
const stackConf = written + "include /usr/lib/muster/plugstack.conf\n"

// jobFolders is job_container.conf(5), which nodes fetch: each job finds a /tmp of its own, which goes with it.
const jobFolders = written + "AutoBasePath=true\nBasePath=" + foldersDir + "\nDirs=/tmp\n"

// RenderCgroup returns a node's part of cgroup.conf, by the version of control groups that confine its jobs. With version 2 they
// are kept from more memory than they have, too; slurmd makes its own groups where there is no systemd. Nodes that confine no job
// name version 1, whose plugin does not look for a hierarchy, without which slurmd would refuse to start.
func RenderCgroup(version int) string {
	if version == 2 {
		return written + "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nEnableControllers=yes\n" +
			"ConstrainCores=yes\nConstrainRAMSpace=yes\n"
	}
	return written + "CgroupPlugin=cgroup/v1\nCgroupMountpoint=" + path.Dir(scheduler.CPUSets) + "\nConstrainCores=yes\n"
}

// NodeConf is slurmd's --conf of a dynamic node with so many MiB in /tmp. Zero CPUs or memory are left to slurmd to find out.
func NodeConf(p protocol.Peer, gpus []GPU, tmp int) string {
	var words []string
	if p.CPUs > 0 {
		words = append(words, fmt.Sprintf("CPUs=%d", p.CPUs))
	}
	if memory := jobMemory(p); memory > 0 {
		words = append(words, fmt.Sprintf("RealMemory=%d", memory))
	}
	if tmp > 0 {
		words = append(words, fmt.Sprintf("TmpDisk=%d", tmp))
	}
	if len(gpus) > 0 {
		words = append(words, "Gres="+nodeGPUs(gpus))
	}
	features := p.Queue
	if p.Leaf != "" {
		features = strings.TrimPrefix(features+","+SwitchFeature(p.Leaf), ",")
	}
	if features != "" {
		words = append(words, "Feature="+features)
	}
	if p.LeafNumber > 0 {
		words = append(words, fmt.Sprintf("Weight=%d", p.LeafNumber))
	}
	return strings.Join(words, " ")
}

// nodeSet keeps the names of node sets apart from those of nodes, among which Slurm looks for both.
func nodeSet(queue string) string { return "queue-" + queue }

// upOrDrain is a partition's state: one that drains refuses new jobs, and those that run go on. Without the partition, a
// restart of slurmctld would end them.
func upOrDrain(closed bool) string {
	if closed {
		return "DRAIN"
	}
	return "UP"
}

func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}
