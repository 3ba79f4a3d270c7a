package admission

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/spec"
)

// leastAccounting is what a head must have, in MiB, so that its jobs can be accounted for.
const leastAccounting = 512

// accountsOf is the field that asks for them.
func accountsOf(c spec.Cluster) string {
	switch {
	case c.Accounting == spec.AccountingFull:
		return "accounting"
	case len(c.QOS) > 0:
		return "qos"
	}
	return "shares"
}

// accountable refuses accounts of jobs that the cluster file asks for and nothing would keep. The error is a *Refusal.
func (a *Admission) accountable(c spec.Cluster, image Image) error {
	if !spec.KeepsAccounts(c) {
		return nil
	}
	needs := a.Schedulers.Of(c.Scheduler()).Caps.Accounts
	if len(needs) == 0 {
		return refuse(Invalid, "no-accounting", accountsOf(c),
			fmt.Sprintf("scheduler %s knows of no jobs, and keeps no accounts of them", c.Scheduler()), "leave it out")
	}
	lacks := slices.DeleteFunc(slices.Clone(needs), func(name string) bool { return slices.Contains(image.Programs, name) })
	if image.Programs == nil || len(lacks) == 0 {
		return nil
	}
	return refuse(Invalid, "image-without-accounting", accountsOf(c),
		fmt.Sprintf("image %s lacks %s, which keep the accounts of jobs", image.Name, strings.Join(lacks, " and ")),
		"write accounting: light and neither qos nor shares, or name an image that has them")
}

// roomForAccounts refuses them if the node is a head that has no memory for them. The error is a *Refusal.
func roomForAccounts(c spec.Cluster, n Placed) error {
	memory := n.Machine.Facts.MemoryMiB
	if n.vm != nil {
		memory = spec.MiB(n.vm.Memory)
	}
	if n.Role != protocol.Head || !spec.KeepsAccounts(c) || memory == 0 || memory >= leastAccounting {
		return nil
	}
	return refuse(Invalid, "too-small", accountsOf(c),
		fmt.Sprintf("the head would be on %s with %d MiB of memory, and the accounts of its jobs take %d", n.Machine.Name,
			memory, leastAccounting),
		"write accounting: light and neither qos nor shares, or a head.class whose machines have more")
}
