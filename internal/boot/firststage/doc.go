// Package firststage is the first process of a machine that boots from the network: it turns a kernel and a few drivers
// into a running node.
//
// What enters: the kernel's command line and, over plain HTTP, a plan (see internal/protocol). What leaves: the
// agent as first process in a root that was verified by its digest, with its boot file, or a machine that is off and
// has said why.
//
// A guest of a hypervisor is given all that by its host: the plan in the initramfs, root and agent on disks. It speaks to no
// server before the agent does.
//
// Run goes from the top to the bottom: drivers, NIC, address, plan, root, agent. A server that does not answer is waited
// for without end, since the controller has the deadline; what cannot get better by waiting ends the boot.
package firststage
