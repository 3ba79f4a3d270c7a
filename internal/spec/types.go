package spec

import (
	"strconv"
	"strings"

	apiv1 "muster/api/v1"
)

// What a cluster file holds, and what is wrong with one, are types of the API: users see them.
type (
	Cluster    = apiv1.ClusterSpec
	Update     = apiv1.Update
	Head       = apiv1.Head
	Queue      = apiv1.Queue
	VM         = apiv1.VM
	Devices    = apiv1.Devices
	Storage    = apiv1.Storage
	Software   = apiv1.Software
	QOS        = apiv1.QOS
	UserLimits = apiv1.UserLimits
	UserShare  = apiv1.UserShare
	Access     = apiv1.Access
	App        = apiv1.App
	Lease      = apiv1.Lease
	Budget     = apiv1.Budget
	Pause      = apiv1.Pause
	Burst      = apiv1.Burst
	Change     = apiv1.Change
	Effect     = apiv1.Effect
	Diagnostic = apiv1.Diagnostic
)

// SameShape says whether nodes of one shape are nodes of the other.
func SameShape(v, other VM) bool {
	mine, theirs := Devices{}, Devices{}
	if v.Devices != nil {
		mine = *v.Devices
	}
	if other.Devices != nil {
		theirs = *other.Devices
	}
	v.Devices, other.Devices, v.Locality, other.Locality = nil, nil, "", "" // where devices are counts for nodes to come
	v.Memory, other.Memory = strconv.Itoa(MiB(v.Memory)), strconv.Itoa(MiB(other.Memory))
	return v == other && mine == theirs
}

// LeastHome is the smallest size of /home, in MiB.
const LeastHome = 300

// Home is the entry of /home; empty where the file says nothing of it.
func Home(c Cluster) Storage {
	for _, s := range c.Storage {
		if s.Mount == homeMount {
			return s
		}
	}
	return Storage{}
}

// KeepsAccounts says that the file asks for the accounts of jobs, or for what needs them.
func KeepsAccounts(c Cluster) bool {
	return c.Accounting == AccountingFull || len(c.QOS)+len(c.Shares) > 0
}

// ResumesOnLogin says whether a login brings the cluster back when it is paused.
func ResumesOnLogin(c Cluster) bool { return c.Access != nil && c.Access.OnLogin == OnLoginResume }

// Values of isolation, boot, access, lease and budget that mean something elsewhere.
const (
	IsolationMetal = "metal"
	IsolationLocal = "local"
	IsolationVM    = "vm"
	BootMemory     = "memory"
	BootDisk       = "disk"
	SchedulerSlurm = "slurm"
	SchedulerNone  = "none"
	AccountingFull = "full"
	OnLimitWarn    = "warn" // of a budget: nothing is paused
	Now            = "now"  // of lease.start
	OnLoginStay    = "stay"
	OnLoginResume  = "resume"
	OnEndPause     = "pause"
	OnEndDelete    = "delete"
)

// MainQueue is the queue that the shorthand `nodes: N` stands for.
const MainQueue = "main"

// NodeName is the host name of a queue's node, counted from 1. Queue names end in a letter and are never "n", so that no two
// queues of a cluster can make the same name.
func NodeName(queue string, index int) string {
	if queue == MainQueue {
		queue = "n"
	}
	return queue + strconv.Itoa(index)
}

// Unavailable is how many of n nodes may be down at a time in a rolling change: one at least.
func Unavailable(c Cluster, n int) int {
	if c.Update == nil {
		return 1
	}
	text, percentage := strings.CutSuffix(c.Update.MaxUnavailable, "%")
	most, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	if percentage {
		most = n * most / 100
	}
	return max(most, 1)
}
